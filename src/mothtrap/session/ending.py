"""The exception that ended the watched code."""

from __future__ import annotations

import os
import sysconfig
import traceback
from typing import TypedDict

from mothtrap.core.error_texts import traceback_without
from mothtrap.core.working_folder import working_folder

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
    _PACKAGE,
)
"""Folders of code that is not the user's: installed packages, and mothtrap itself."""


class Told(TypedDict, total=False):
    """Fields of `WorkerEnded` about an exception; empty without an exception."""

    exception: str
    location: str | None
    traceback: str


def told(error: BaseException | None) -> Told:
    """Return an exception as text, the user's line that raised it, and its traceback.

    The line is None if no user code was running.
    """
    if error is None:
        return {}
    text = traceback_without(_PACKAGE, error)
    return {
        "exception": f"{type(error).__name__}: {error}",
        "location": raised_at(error),
        "traceback": text,
    }


def raised_at(error: BaseException) -> str | None:
    """Return the innermost line of the user's own code in a traceback, as `file:line`."""
    place = None
    here = str(working_folder()) + os.sep
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = os.path.join(here, frame.f_code.co_filename)
        if os.path.isfile(path) and not path.startswith(_LIBRARIES):
            place = f"{path.removeprefix(here)}:{line}"
    return place
