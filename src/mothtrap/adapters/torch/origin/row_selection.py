"""Selection of rows from the inputs of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch


def chosen(value: Any, rows: Sequence[int], count: int, *, repeat: bool) -> Any:
    """Select rows of every array whose first axis has the batch size.

    Args:
        value: any nesting of lists, tuples and dicts; lists and dicts are changed in place.
        rows: positions, at least one.
        count: size of the batch.
        repeat: repeat rows until there are `count`.
    """
    places = [rows[n % len(rows)] for n in range(count)] if repeat else list(rows)
    return _chosen(value, places, count, {})


def _chosen(value: Any, places: list[int], count: int, known: dict[int, Any]) -> Any:
    if id(value) not in known:
        # kept alive, so that its id is not reused
        known[id(value)] = value, _taken(value, places, count, known)
    return known[id(value)][1]


def _taken(value: Any, places: list[int], count: int, known: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dim() and len(value) == count and value.layout is torch.strided:
            return value.detach()[places].requires_grad_(value.requires_grad)
        return value
    if isinstance(value, np.ndarray):
        return value[places] if value.ndim and len(value) == count else value
    if isinstance(value, dict):
        for key, part in list(value.items()):
            dict.__setitem__(value, key, _chosen(part, places, count, known))
    elif isinstance(value, list):
        value[:] = [_chosen(part, places, count, known) for part in value]
    elif isinstance(value, tuple):
        parts = [_chosen(part, places, count, known) for part in value]
        return tuple.__new__(type(value), parts)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            part = _chosen(getattr(value, field.name), places, count, known)
            object.__setattr__(value, field.name, part)
    return value


def batch_size(value: Any) -> int | None:
    """Return the length of the first axis of the first array in a value; None if there is none."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return len(value) if value.ndim else None
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    return next((size for part in parts if (size := batch_size(part)) is not None), None)
