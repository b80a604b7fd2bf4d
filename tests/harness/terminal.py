"""A very small terminal emulator: the lines that a person sees after some output."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def lines(output: str) -> list[str]:
    """Return the lines on the screen at the end.

    Handles carriage return, newline, erasing of a line and moving up; ignores colors.
    """
    shown: list[list[str]] = [[]]
    row = column = position = 0
    while position < len(output):
        escape = _ESCAPE.match(output, position)
        if escape:
            position = escape.end()
            count, action = escape.groups()
            if action == "K":
                keep = {"": slice(0, column), "2": slice(0, 0)}.get(count, slice(0, column))
                shown[row] = shown[row][keep]
            elif action == "A":
                row = max(0, row - int(count or 1))
            continue
        letter = output[position]
        position += 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            if row == len(shown):
                shown.append([])
        else:
            line = shown[row]
            line.extend(" " * (column + 1 - len(line)))
            line[column] = letter
            column += 1
    return ["".join(line).rstrip() for line in shown]
