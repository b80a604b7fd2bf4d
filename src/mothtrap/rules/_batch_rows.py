"""Number of rows in a batch, taken from the loss calls."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.facts.losses import LossCall
from mothtrap.core.window import Window

MANY_ROWS = 16
"""Number of rows whose mean describes the model rather than a single row; chosen by hand."""

FEW_ROWS = 4
"""Batch size up to which one hard row causes a spike of loss and gradient; chosen by hand."""


def batch_rows(window: Window) -> int | None:
    """Return the median number of predictions of a loss call; None if there was no loss call.

    A prediction without axes is one row, unless other calls have predictions with axes.
    """
    shapes = [call.prediction_shape for call in window.seen(LossCall)]
    rows = [shape[0] for shape in shapes if shape]
    if not rows:
        return 1 if () in shapes else None
    return int(np.median(rows))


def steps_of_many_rows(window: Window) -> int:
    """Return how many steps add up to `MANY_ROWS` rows; 1 if the rows are not known."""
    rows = batch_rows(window)
    return math.ceil(MANY_ROWS / max(1, rows)) if rows is not None else 1


def has_few_rows(window: Window) -> bool:
    """Return whether a single row can cause a spike of the loss or the gradient."""
    rows = batch_rows(window)
    return rows is not None and rows <= FEW_ROWS
