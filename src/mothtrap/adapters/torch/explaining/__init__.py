"""Exceptions of the framework in words, one kind of mistake per file."""
