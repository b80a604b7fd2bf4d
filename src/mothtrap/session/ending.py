"""The exception that ended what was watched."""

from __future__ import annotations

import os
import sysconfig
import traceback

from mothtrap.core.working_folder import working_folder

_LIBRARIES = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
"""Folders of code that is not the user's: the installed, and our own."""


def told(error: BaseException | None) -> tuple[str | None, str | None]:
    """Return an exception in words, and the user's line where it arose.

    Both are None where there is none, the line also where no code of the user was running.
    """
    return (f"{type(error).__name__}: {error}", raised_at(error)) if error else (None, None)


def raised_at(error: BaseException) -> str | None:
    """Return the innermost line of the user's own code in a traceback, as `file:line`."""
    place = None
    here = str(working_folder()) + os.sep
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = os.path.join(here, frame.f_code.co_filename)
        if os.path.isfile(path) and not path.startswith(_LIBRARIES):
            place = f"{path.removeprefix(here)}:{line}"
    return place
