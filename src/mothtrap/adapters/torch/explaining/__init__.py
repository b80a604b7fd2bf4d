"""Explanations of the framework's exceptions, one kind of mistake per file."""
