"""Where a rise began that is only seen once it is well under way."""

from __future__ import annotations

import numpy as np

from mothtrap.core.window import Floats

MAX_STEPS = 200
"""How far back a rise is followed; chosen by hand: bounds the cost of the fit."""


def rise_begins(values_S: Floats, seen: int) -> int:
    """Return the index of the first value that belongs to a rise.

    The logarithms of the values up to `seen` are taken to be level and then to rise in
    a straight line; the bend that leaves the smallest squared error is where it began.

    Args:
        values_S: shape (S,), positive and finite.
        seen: index at which the rise is certain.
    """
    first = max(0, seen - MAX_STEPS)
    log_S = np.log(values_S[first : seen + 1])
    count = len(log_S)
    if count < 3:
        return seen
    # One row per bend, one column per value: x is the distance beyond the bend.
    place_S = np.arange(count)
    x_BS = np.maximum(0.0, place_S[None, :] - place_S[: count - 1, None])
    x_BS -= x_BS.mean(axis=1, keepdims=True)
    y_S = log_S - log_S.mean()
    explained_B = (x_BS @ y_S) ** 2 / (x_BS**2).sum(axis=1)
    return first + int(np.argmax(explained_B)) + 1
