"""Magnitude of the outputs of layers, and their variation between rows."""

from __future__ import annotations

import torch

MAX_VALUES = 1 << 16
"""Approximate number of inspected values of an output; chosen by hand: tens of microseconds."""
MAX_ROWS = 256


def sizes(values: torch.Tensor) -> torch.Tensor:
    """Return the mean square and variance of a sample of a float tensor, shape (2,)."""
    flat = values.detach().reshape(-1)
    flat = flat[:: max(1, flat.numel() // MAX_VALUES)].float()
    return torch.stack([flat.square().mean(), flat.var(correction=0)])


def spread(output: torch.Tensor) -> torch.Tensor | None:
    """Return the relative spread of an output between the rows of a batch.

    Args:
        output: float, rows along axis 0.

    Returns:
        Shape (3,): standard deviation over rows (root mean square over units), root mean square of
        all values, and the largest difference between any row and the first. None if there are
        fewer than 2 rows.
    """
    if output.ndim < 2 or len(output) < 2 or not output.numel():
        return None
    rows = output.detach()[:MAX_ROWS]
    rows = rows.reshape(len(rows), -1)
    rows = rows[:, :: max(1, rows.shape[1] * len(rows) // MAX_VALUES)].float()
    between = rows.var(dim=0, correction=0).mean().sqrt()
    return torch.stack([between, rows.square().mean().sqrt(), (rows - rows[0]).abs().amax()])


def rows_differ(values: torch.Tensor) -> bool | None:
    """Return whether the rows of a tensor differ; None if there are no rows."""
    if values.ndim < 1 or len(values) < 2 or not values.numel():
        return None
    rows = values.detach()[:MAX_ROWS]
    return not bool((rows == rows[:1]).all())
