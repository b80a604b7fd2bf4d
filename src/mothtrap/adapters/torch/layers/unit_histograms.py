"""Inputs of the units of sigmoid and tanh modules, as a small histogram for each unit."""

from __future__ import annotations

import torch

from mothtrap.tracing.describe.layer_numbers import EDGES, MAX_UNITS

FUNCTIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh"}
MAX_ROWS = 256


def histogram(values: torch.Tensor, unit_axis: int) -> torch.Tensor | None:
    """Count the inputs of units between `EDGES`.

    Args:
        values: input of a module, float, at least 2 axes.
        unit_axis: axis of the units.

    Returns:
        int64, shape (units * (len(EDGES) + 1),), for at most `MAX_UNITS` units, evenly chosen; NaN
        is not counted. None if there are no values.
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
