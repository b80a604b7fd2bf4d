"""Localization of a bad step: the operation and the rows that caused it."""
