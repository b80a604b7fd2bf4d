"""Magnitude of the outputs of layers, and their variation between rows."""

from __future__ import annotations

import torch

from mothtrap.adapters.torch.layers.weighted import spaced

MAX_ROWS = 256


def sizes(values: torch.Tensor) -> torch.Tensor:
    """Return the mean square and variance of a sample of a float tensor, shape (2,)."""
    flat = spaced(values.detach().reshape(-1)).float()
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
    rows = spaced(rows.reshape(len(rows), -1)).float()
    between = rows.var(dim=0, correction=0).mean().sqrt()
    return torch.stack([between, rows.square().mean().sqrt(), (rows - rows[0]).abs().amax()])


def rows_differ(values: torch.Tensor) -> bool | None:
    """Return whether the rows of a tensor differ; None if there are no rows."""
    if values.ndim < 1 or len(values) < 2 or not values.numel():
        return None
    rows = values.detach()[:MAX_ROWS]
    rows = rows.reshape(len(rows), -1)
    some = spaced(rows)
    return bool((some != some[:1]).any()) or bool((rows != rows[:1]).any())
