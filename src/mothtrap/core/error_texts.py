"""Texts of exceptions that others raise: one line to say, a bounded traceback to keep."""

from __future__ import annotations

import traceback

from mothtrap.core.masking import without_secrets

MAX_LINE = 300
"""Characters of the one line."""
MAX_TRACEBACK = 64 << 10
"""Characters of a traceback that are kept; the innermost frames stand at its end."""
_HEAD = 8 << 10


def in_one_line(error: BaseException) -> str:
    """Return type and first line of an exception, and notes of one line, without secrets."""
    text = first_line(str(error))
    notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
    kind = type(error).__name__
    return shortened(without_secrets("; ".join([f"{kind}: {text}" if text else kind, *notes])))


def first_line(text: str) -> str:
    """Return the first line of a text that has anything in it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def shortened(line: str) -> str:
    """Return a line, cut off where it is longer than `MAX_LINE`."""
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


def traceback_of(error: BaseException) -> str:
    """Return a traceback without secrets, of at most `MAX_TRACEBACK` characters.

    Of a longer one the beginning and the end are kept.
    """
    text = without_secrets("".join(traceback.format_exception(error)))
    if len(text) <= MAX_TRACEBACK:
        return text
    left_out = f"\n... {len(text) - MAX_TRACEBACK:,} characters left out ...\n"
    return text[:_HEAD] + left_out + text[len(text) - MAX_TRACEBACK + _HEAD + len(left_out) :]
