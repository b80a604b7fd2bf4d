"""Syntax trees of the repository's files: each is parsed and walked once, for all checks."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)


def files(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the Python files below a folder, relative to it, and their trees."""
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source), parsed(path)


def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return _parsed(path, path.stat().st_mtime_ns)


def nodes(tree: ast.Module, *kinds: type[Node]) -> list[Node]:
    """Return the nodes of a tree that are of these kinds, kind by kind."""
    found = _by_kind(tree)
    return [node for kind in kinds for node in found.get(kind, ())]


def nodes_with(tree: ast.Module, field: str) -> list[Any]:
    """Return the nodes of a tree that have a field."""
    return [n for kind, found in _by_kind(tree).items() if field in kind._fields for n in found]


@cache
def _parsed(path: Path, changed_ns: int) -> ast.Module:
    gc.disable()  # which would visit millions of nodes repeatedly: most of the time
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def _by_kind(tree: ast.Module) -> Mapping[type, list[Any]]:
    """Group nodes by kind. Each comes after those that it is part of, as `ast.walk` yields them."""
    gc.disable()
    try:
        found: dict[type, list[Any]] = {}
        left: list[ast.AST] = [tree]
        for node in left:  # which grows
            found.setdefault(type(node), []).append(node)
            for value in vars(node).values():
                if isinstance(value, ast.AST):
                    if not isinstance(value, ast.expr_context | ast.operator):
                        left.append(value)
                elif isinstance(value, list):
                    left.extend(part for part in value if isinstance(part, ast.AST))
        return found
    finally:
        gc.enable()
