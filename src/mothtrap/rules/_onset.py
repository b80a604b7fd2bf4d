"""First step of a rise that is noticed only later."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.window import Floats

MAX_STEPS = 200
"""Number of steps over which a rise is traced back, to bound the cost; chosen by hand."""


def rise_begins(values_S: Floats, seen: int) -> int:
    """Return the index of the first value that belongs to a rise.

    A level line followed by a straight rise is fitted to the logarithms of the values from the
    lowest value up to `seen`. The rise begins at the bend with the smallest squared error. Values
    before the lowest value (by medians of 3) were still falling.

    Args:
        values_S: Positive finite values, shape (S,).
        seen: Index at which the rise is certain.
    """
    first = max(0, seen - MAX_STEPS)
    first += _lowest(values_S[first : seen + 1])
    log_S = np.log(values_S[first : seen + 1])
    count = len(log_S)
    if count < 3:
        return seen
    # One row per bend, one column per value: x is the distance beyond the bend.
    place_S = np.arange(count)
    x_BS = np.maximum(0.0, place_S[None, :] - place_S[: count - 1, None])
    x_BS -= x_BS.mean(axis=1, keepdims=True)
    y_S = log_S - log_S.mean()
    rising_B = np.maximum(x_BS @ y_S, 0.0)  # a line that falls explains no rise
    return first + int(np.argmax(rising_B**2 / (x_BS**2).sum(axis=1))) + 1


def _lowest(values_S: Floats) -> int:
    if len(values_S) < 3:
        return 0
    medians_S = np.median(sliding_window_view(values_S, 3), axis=1)
    return 1 + int(np.argmin(medians_S)) if medians_S.min() < values_S[0] else 0


def counted_from(step: int, count: int, since: int | None) -> int:
    """Return the step at which a condition began that is reported together with a step count.

    Args:
        step: Step of the latest report.
        count: Number of steps with the condition.
        since: First of these steps; None in older runs, which checked each step.
    """
    return max(0, step - count + 1) if since is None else since
