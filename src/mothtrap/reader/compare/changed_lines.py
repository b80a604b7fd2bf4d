"""Lines of the scripts that differ between two runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from mothtrap.reader.run import Run

MAX_LINES = 40
"""Maximum number of returned lines of all files together."""


def changed_lines(first: Run, second: Run) -> tuple[str, ...]:
    """Return the lines of scripts that differ, in the format of `diff -u` without context.

    Files are compared by path, or by name if they are in different folders. If one file of each run
    has no counterpart, it is a script with a new name. Other files that only one run has are
    omitted.
    """
    mine, theirs = first.source_texts(), second.source_texts()
    lines: list[str] = []
    for before, after in _pairs(mine, theirs):
        lines += difflib.unified_diff(
            mine[before].splitlines(),
            theirs[after].splitlines(),
            fromfile=before,
            tofile=after,
            lineterm="",
            n=0,
        )
    more = len(lines) - MAX_LINES
    return (*lines[:MAX_LINES], *([f"... {more} more lines"] if more > 0 else []))


def _pairs(mine: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    left = [file for file in mine if file not in theirs]
    right = [file for file in theirs if file not in mine]
    yield from ((file, file) for file in mine if file in theirs)
    for before in list(left):
        same_name = [after for after in right if Path(after).name == Path(before).name]
        if len(same_name) == 1:
            left.remove(before)
            right.remove(same_name[0])
            yield before, same_name[0]
    if len(left) == len(right) == 1:
        yield left[0], right[0]
