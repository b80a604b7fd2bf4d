"""Differences between the scripts that two runs stored."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

import msgspec

MOST_LINES = 400
"""Maximum number of lines of differences in an answer; chosen by hand."""
MOST_LENGTH = 400
"""Characters of a line that are shown; chosen by hand."""
CONTEXT = 3
"""Equal lines around each difference."""


class CodeDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a unified diff of one file; `more` lines are left out."""

    file: str
    lines: tuple[str, ...]
    more: int


def code_differences(
    first: Mapping[str, str], second: Mapping[str, str]
) -> tuple[CodeDifference, ...] | None:
    """Return the files whose text differs; None if a run has stored no script.

    Args:
        first: text of each file of the first run, by path.
        second: text of each file of the other.
    """
    return tuple(_differences(first, second)) if first and second else None


def _differences(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[CodeDifference]:
    left = MOST_LINES
    for file in sorted(first.keys() | second.keys()):
        one, other = first.get(file, ""), second.get(file, "")
        if one == other:
            continue
        told = difflib.unified_diff(one.splitlines(), other.splitlines(), n=CONTEXT, lineterm="")
        lines = [line[:MOST_LENGTH] for line in told][2:]  # without the two names
        shown = lines[: max(left, 0)]
        left -= len(shown)
        yield CodeDifference(file=file, lines=tuple(shown), more=len(lines) - len(shown))
