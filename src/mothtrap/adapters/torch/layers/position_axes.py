"""Modules that add position vectors to a sequence, and the axis along which the vectors differ."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.dropouts import share_dropped
from mothtrap.adapters.torch.layers.weighted import is_weighted

TOLERANCE = 1e-3
"""Largest difference of equal vectors, relative to the largest value; chosen by hand for rounding.
"""
LEAST_LENGTH = 3
"""Smallest length of an axis along which vectors are compared."""


def adds_positions(module: nn.Module, given: torch.Tensor) -> bool:
    """Return whether a module may add stored vectors to an input of three axes."""
    if given.ndim != 3 or is_weighted(module) or min(given.shape[:2]) < LEAST_LENGTH:
        return False
    stored = [*module._buffers.values(), *module._parameters.values()]
    return any(
        one is not None and one.ndim in (2, 3) and one.shape[-1] == given.shape[-1]
        for one in stored
    )


def axis_of_positions(module: nn.Module, given: torch.Tensor, output: Any) -> int | None:
    """Return the axis (0 or 1) along which a module adds different vectors; None if unknown.

    The vectors have to be equal along the other axis.

    Args:
        module: the module, which may end with a dropout.
        given: its input, shape (A, B, features).
        output: its output.
    """
    if not isinstance(output, torch.Tensor) or output.shape != given.shape:
        return None
    kept = 1.0
    for part in module.modules():
        kept *= 1.0 - share_dropped(part) if part.training else 1.0
    with torch.no_grad():
        added = output.detach().float() * kept - given.detach().float()
        dropped = output == 0 if kept < 1.0 else torch.zeros_like(output, dtype=torch.bool)
        limit = TOLERANCE * float(given.detach().abs().max() + added.abs().max())
        spreads = [_spread(added, dropped, axis) for axis in (0, 1)]
    differs = [spread > limit for spread in spreads]
    return differs.index(True) if sum(differs) == 1 else None


def _spread(added: torch.Tensor, dropped: torch.Tensor, axis: int) -> float:
    """Return the largest difference of the added values along an axis."""
    largest = added.masked_fill(dropped, -torch.inf).amax(axis)
    smallest = added.masked_fill(dropped, torch.inf).amin(axis)
    spread = largest - smallest
    return float(spread[spread.isfinite()].max()) if bool(spread.isfinite().any()) else 0.0
