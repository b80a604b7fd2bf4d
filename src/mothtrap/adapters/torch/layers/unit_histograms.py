"""Inputs of the units of sigmoid and tanh modules, as a small histogram for each unit."""

from __future__ import annotations

import torch

_POSITIVE = (1.0, 2.0, 3.0, 4.0, 4.6, 5.0, 6.0, 7.0, 8.0, 9.5, 12.0, 14.0, 17.0, 20.0, 23.0)
EDGES = (*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE)
"""Bounds between which inputs are counted; among them those where the derivative of
tanh or sigmoid falls below 1e-2 (3.0, 4.6) and 1e-7 (9.5, 17)."""
FUNCTIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh"}
MAX_ROWS = 256
MAX_UNITS = 32


def histogram(values: torch.Tensor, unit_axis: int) -> torch.Tensor | None:
    """Count the inputs of units between `EDGES`.

    Args:
        values: what a module is called with, float, at least 2 axes.
        unit_axis: along which the units lie.

    Returns:
        int64, shape (units * (len(EDGES) + 1),), of at most `MAX_UNITS` units, evenly
        chosen; NaN is in no gap. None when there are no values.
    """
    if values.ndim < 2 or not values.numel():
        return None
    units = values.detach().movedim(unit_axis, -1)
    units = units.reshape(-1, units.shape[-1])
    units = units[:: max(1, len(units) // MAX_ROWS), :: max(1, units.shape[1] // MAX_UNITS)]
    units = units[:MAX_ROWS, :MAX_UNITS].float()
    edges = torch.tensor(EDGES, device=units.device)
    gap = torch.bucketize(units.contiguous(), edges).masked_fill(units.isnan(), -1)
    gaps = torch.arange(len(EDGES) + 1, device=units.device)
    return (gap.unsqueeze(-1) == gaps).sum(dim=0).reshape(-1)
