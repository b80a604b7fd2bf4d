"""Tensors in the inputs and outputs of modules: nested containers, each with its place."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

LEVELS = 4
"""Maximum depth of nested containers, e.g. for a cache: an output, its field, a layer, keys and
values. Chosen by hand.
"""


_LEAVES = frozenset({types.NoneType, bool, int, float, str})
"""Types that contain no tensors, which most other arguments have."""


def tensors_in(value: Any, levels: int = LEVELS) -> list[torch.Tensor]:
    """Yield every tensor in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    found: list[torch.Tensor] = []
    if levels:
        plain = isinstance(value, tuple | list)  # most values are, so this avoids further calls
        for part in value if plain else [part for _, part in parts_of(value)]:
            if isinstance(part, torch.Tensor):
                found.append(part)
            elif type(part) not in _LEAVES:
                found += tensors_in(part, levels - 1)
    return found


def placed_tensors(
    value: Any, place: str = "", levels: int = LEVELS
) -> list[tuple[str, torch.Tensor]]:
    """Yield every tensor in a value with its path: keys, fields and positions, joined by dots.

    The path of a tensor does not depend on other tensors. The path of a bare tensor is empty.
    """
    if isinstance(value, torch.Tensor):
        return [(place, value)]
    found: list[tuple[str, torch.Tensor]] = []
    if levels:
        for key, part in parts_of(value):
            if type(part) in _LEAVES:
                continue
            found += placed_tensors(part, f"{place}.{key}" if place else key, levels - 1)
    return found


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a container by key, field or position; other values have no items."""
    if isinstance(value, dict):
        for position, (key, part) in enumerate(value.items()):
            yield str(key) if isinstance(key, str | int) else str(position), part
    elif isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)  # of a named tuple
        for position, part in enumerate(value):
            yield fields[position] if fields else str(position), part
    elif hasattr(type(value), "__dataclass_fields__"):
        for field in type(value).__dataclass_fields__:
            yield field, getattr(value, field, None)
