"""Texts of exceptions from other code: one line to print, and a bounded traceback to store."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from mothtrap.core.masking import without_secrets

MAX_LINE = 300
"""Maximum number of characters in the one-line text."""
MAX_TRACEBACK = 64 << 10
"""Maximum number of stored characters of a traceback; the innermost frames are at its end."""
_HEAD = 8 << 10


def in_one_line(error: BaseException) -> str:
    """Return the type, first line, and one-line notes of an exception, without secrets."""
    text = first_line(str(error))
    notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
    kind = type(error).__name__
    return shortened(without_secrets("; ".join([f"{kind}: {text}" if text else kind, *notes])))


def first_line(text: str) -> str:
    """Return the first non-empty line of a text."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def shortened(line: str) -> str:
    """Return a line truncated to `MAX_LINE` characters."""
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


def traceback_of(error: BaseException) -> str:
    """Return a traceback without secrets, of at most `MAX_TRACEBACK` characters.

    A longer traceback keeps its beginning and its end.
    """
    return _bounded("".join(traceback.format_exception(error)))


def traceback_without(folder: str, error: BaseException) -> str:
    """Return the result of `traceback_of` without frames of files in a folder.

    Args:
        folder: absolute path with a separator at its end.
        error: an exception that was raised.
    """
    told = traceback.TracebackException.from_exception(error)
    for one in _chain(told):
        one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(folder)]
    return _bounded("".join(told.format()))


def _chain(
    error: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    """Yield an exception, its causes, its context, and the exceptions of a group."""
    yield error
    others = [error.__cause__, error.__context__, *(error.exceptions or ())]
    for other in filter(None, others):
        yield from _chain(other)


def _bounded(text: str) -> str:
    text = without_secrets(text)
    if len(text) <= MAX_TRACEBACK:
        return text
    left_out = f"\n... {len(text) - MAX_TRACEBACK:,} characters omitted ...\n"
    return text[:_HEAD] + left_out + text[len(text) - MAX_TRACEBACK + _HEAD + len(left_out) :]
