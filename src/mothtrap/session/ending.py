"""The exception that nobody caught, at the end of a process."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback

_LIBRARIES = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
"""Folders of code that is not the user's: the installed, and our own."""


def uncaught() -> tuple[str | None, str | None]:
    """Return the exception that ends this process, and the user's line where it arose.

    Both are None where there is none, the line also where no code of the user was running.
    """
    # In an interactive session a mistyped line is not the end of the job.
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return None, None
    return f"{type(error).__name__}: {error}", raised_at(error)


def raised_at(error: BaseException) -> str | None:
    """Return the innermost line of the user's own code in a traceback, as `file:line`."""
    place = None
    try:
        here = os.getcwd() + os.sep
    except OSError:  # the folder is gone
        here = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = os.path.join(here, frame.f_code.co_filename)
        if os.path.isfile(path) and not path.startswith(_LIBRARIES):
            place = f"{path.removeprefix(here)}:{line}"
    return place
