"""Tensors as a tree of modules, and its visible rows.

A closed module is one row, which represents all tensors below it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

AT_FIRST = 64
"""Rows up to which modules are open at first; chosen by hand: two screens."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row: a tensor, or a module with `count` tensors below it.

    `path` is a tensor's name; the path of a module ends in a dot. `begin` is the position of its
    first tensor in tree order. `open` is None for a tensor.
    """

    path: str
    label: str
    depth: int
    count: int
    begin: int
    open: bool | None = None


@dataclass(slots=True)
class _Node:
    path: str
    label: str
    parts: dict[str, _Node] = field(default_factory=dict)
    is_tensor: bool = False
    count: int = 0


def tree(names: Sequence[str]) -> tuple[_Node, list[str]]:
    """Return the root of the module tree, and the tensors in tree order.

    Modules and tensors are in the order of their first occurrence. A module with a single part is
    merged with it.

    Args:
        names: names of the tensors, each once.
    """
    root = _Node("", "")
    for name in names:
        node = root
        words = name.split(".")
        for place, word in enumerate(words):
            # A tensor may have the name of a module, as an output does: it is a separate part.
            path = ".".join(words[: place + 1]) + "." * (place < len(words) - 1)
            if path not in node.parts:
                node.parts[path] = _Node(path, word)
            node = node.parts[path]
        node.is_tensor = True
    ordered: list[str] = []
    _count(root, ordered)
    _join(root)
    return root, ordered


def rows_of(
    root: _Node, opened: Collection[str], closed: Collection[str], at_first: int = AT_FIRST
) -> list[Row]:
    """Return the visible rows.

    Args:
        root: result of `tree`.
        opened: paths of modules that someone has opened.
        closed: closed modules; the others are open as far as there is room.
        at_first: number of rows that fit at first.
    """
    shown, waiting = len(root.parts), list(root.parts.values())
    automatic = set()
    while waiting:
        node = waiting.pop(0)
        if not node.parts or (node.path not in opened and shown + len(node.parts) > at_first):
            continue
        automatic.add(id(node))
        shown += len(node.parts)
        waiting += node.parts.values()

    def is_open(node: _Node) -> bool:
        return node.path in opened or (id(node) in automatic and node.path not in closed)

    rows: list[Row] = []
    _list(root, 0, 0, is_open, rows)
    return rows


def _count(node: _Node, ordered: list[str]) -> None:
    if node.is_tensor:
        ordered.append(node.path)
        node.count = 1
        return
    for part in node.parts.values():
        _count(part, ordered)
    node.count = sum(part.count for part in node.parts.values())


def _join(node: _Node) -> None:
    for key, part in list(node.parts.items()):
        while len(part.parts) == 1:
            (only,) = part.parts.values()
            part = _Node(
                only.path, f"{part.label}.{only.label}", only.parts, only.is_tensor, only.count
            )
        node.parts[key] = part
        _join(part)


def _list(
    node: _Node, depth: int, begin: int, is_open: Callable[[_Node], bool], rows: list[Row]
) -> None:
    for part in node.parts.values():
        opened = None if part.is_tensor else is_open(part)
        rows.append(
            Row(
                path=part.path,
                label=part.label,
                depth=depth,
                count=part.count,
                begin=begin,
                open=opened,
            )
        )
        if opened:
            _list(part, depth + 1, begin, is_open, rows)
        begin += part.count
