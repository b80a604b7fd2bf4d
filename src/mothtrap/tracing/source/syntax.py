"""Syntax trees of the user's source files.

A tree is parsed once and shared, so callers must not change it.
"""

from __future__ import annotations

import ast
import functools
import linecache
from typing import Final

MAX_TREES: Final = 8
"""Maximum number of cached trees: enough for a script and the modules with its model and loop."""
MOST_BYTES: Final = 1_000_000
"""Maximum size of a source file that is read; chosen by hand: longer files are generated."""

Place = tuple[int | None, int | None, int | None, int | None]
"""First line, last line, first column and last column, as in `code.co_positions()`."""


def parsed(filename: str) -> ast.Module | None:
    """Return the syntax tree of a file; None if its source cannot be read."""
    return _tree("".join(linecache.getlines(filename)))


def of_file(file: str) -> ast.Module | None:
    """Return a tree of the start of a file, which is not kept; None if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return ast.parse(opened.read(MOST_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def call_at(filename: str, place: Place) -> ast.Call | None:
    """Return the call at a position in a file."""
    tree = parsed(filename)
    return None if tree is None else _calls(tree).get(place)


@functools.lru_cache(maxsize=MAX_TREES)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


@functools.lru_cache(maxsize=MAX_TREES)
def _calls(tree: ast.Module) -> dict[Place, ast.Call]:
    found: dict[Place, ast.Call] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
            found.setdefault(place, node)
    return found
