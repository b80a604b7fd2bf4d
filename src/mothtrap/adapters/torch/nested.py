"""Tensors in what modules take and give: containers in containers, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

LEVELS = 4
"""Containers in containers that are looked into, e.g. a cache: an output, its field, a
layer, keys and values. Chosen by hand."""


def tensors_in(value: Any, levels: int = LEVELS) -> Iterator[torch.Tensor]:
    """Every tensor in a value, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif levels:
        for _, part in parts_of(value):
            yield from tensors_in(part, levels - 1)


def placed_tensors(
    value: Any, place: str = "", levels: int = LEVELS
) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a value with its place: keys, fields and positions, joined by dots.

    The place of a tensor does not depend on what else is there. That of a bare tensor
    is empty.
    """
    if isinstance(value, torch.Tensor):
        yield place, value
    elif levels:
        for key, part in parts_of(value):
            yield from placed_tensors(part, f"{place}.{key}" if place else key, levels - 1)


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, by key, field or position; nothing of anything else."""
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
