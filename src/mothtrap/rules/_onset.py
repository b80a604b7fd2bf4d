"""Onset of a rise that is noticed only once it is well under way."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.window import Floats

MAX_STEPS = 200
"""Number of steps over which a rise is followed back; chosen by hand: bounds the cost."""


def rise_begins(values_S: Floats, seen: int) -> int:
    """Return the index of the first value that belongs to a rise.

    The logarithms of the values from the lowest one up to `seen` are taken to be level
    and then to rise in a straight line; the bend that leaves the smallest squared error is
    where it began. What comes before the lowest one (by medians of 3) was still falling.

    Args:
        values_S: shape (S,), positive and finite.
        seen: index at which the rise is certain.
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
    """Return the step at which something began that was counted since.

    Args:
        step: at which it was told last.
        count: steps in which it was seen.
        since: the first of them; None in older runs, which looked at each step.
    """
    return max(0, step - count + 1) if since is None else since
