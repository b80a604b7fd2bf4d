"""What the units of sigmoid and tanh modules are given, as a small histogram for each."""

from __future__ import annotations

import torch

EDGES = (-23.0, -17.0, -9.5, -6.9, -4.6, -3.0, -1.5, 0.0, 1.5, 3.0, 4.6, 6.9, 9.5, 17.0, 23.0)
"""Bounds between which inputs are counted: where the derivative of sigmoid or tanh falls
below 1e-2 (4.6, 3.0), 1e-3 (6.9), 1e-7 (17, 9.5), and beyond."""
FUNCTIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh"}
MAX_ROWS = 256
MAX_UNITS = 64


def histogram(values: torch.Tensor, unit_axis: int) -> torch.Tensor | None:
    """Count the inputs of units between `EDGES`.

    Args:
        values: what a module is called with, float, at least 2 axes.
        unit_axis: along which the units lie.

    Returns:
        int64, shape (units * (len(EDGES) + 1),), of at most `MAX_UNITS` units, evenly
        chosen; NaN counts as beyond the last edge. None when there are no values.
    """
    if values.ndim < 2 or not values.numel():
        return None
    units = values.detach().movedim(unit_axis, -1)
    units = units.reshape(-1, units.shape[-1])
    units = units[:: max(1, len(units) // MAX_ROWS), :: max(1, units.shape[1] // MAX_UNITS)]
    units = units[:MAX_ROWS, :MAX_UNITS].float()
    edges = torch.tensor(EDGES, device=units.device)
    gap = torch.bucketize(units.contiguous(), edges)
    gaps = torch.arange(len(EDGES) + 1, device=units.device)
    return (gap.unsqueeze(-1) == gaps).sum(dim=0).reshape(-1)
