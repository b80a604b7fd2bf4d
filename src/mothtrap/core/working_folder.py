"""Paths relative to the working folder, which a script may delete while it runs."""

from __future__ import annotations

import os
from pathlib import Path


def _at_start() -> str:
    try:
        return os.getcwd()
    except OSError:  # the shell's current folder was deleted
        return os.environ.get("PWD", os.sep)


_START = _at_start()


def working_folder() -> Path:
    """Return the working folder; if it was deleted, the folder in which the process started."""
    try:
        return Path.cwd()
    except OSError:
        return Path(_START)


def absolute(path: str) -> str:
    """Return the absolute form of a path."""
    whole = path if os.path.isabs(path) else os.path.join(working_folder(), path)
    return os.path.normpath(whole)


def shown(path: str) -> str:
    """Return a path relative to the working folder if it lies below it, else its absolute form."""
    whole = absolute(path)
    try:
        inside = os.path.relpath(whole, working_folder())
    except ValueError:  # another drive
        return whole
    return whole if inside.startswith("..") else inside
