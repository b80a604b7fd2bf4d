"""Targets of several numbers each that are part of the model's input.

Shape suffixes: N = rows, F = numbers of an input row, K = numbers of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.describe.target_leakage import MIN_ROWS

Array = npt.NDArray[Any]

COMPARED_ROWS, COMPARED = 64, 5
"""Number of compared rows, and of compared numbers of a target. Chosen by hand."""
MAX_NUMBERS = 1 << 14
"""Maximum numbers in a row of the input. Chosen by hand."""
LARGEST_SHARE = 0.5
"""Largest target, as a share of the input. A larger one is a reconstruction. Chosen by hand."""


def copied_places(inputs: Sequence[Array], target: Array) -> tuple[tuple[int, ...], int] | None:
    """Find the places of an input from which every number of a target is copied.

    Targets that are the next values of a series are not copies: the last one is not in the input.

    Args:
        inputs: arrays that the model was called with; the first of floats with as many rows counts.
        target: several numbers for each row, shape (N, ...).

    Returns:
        Places of the first, the last, and some other numbers of the target, and the numbers of an
        input row; no place if one of them is not in the input. None if there is no such input.
    """
    if target.ndim < 2 or target.dtype.kind != "f" or len(target) < MIN_ROWS:
        return None
    rows = min(len(target), COMPARED_ROWS)
    y_NK = target[:rows].reshape(rows, -1)
    for given in inputs:
        if given.dtype.kind != "f" or given.ndim < 2 or len(given) < rows:
            continue
        x_NF = given[:rows].reshape(rows, -1)
        numbers = x_NF.shape[1]
        if 1 < y_NK.shape[1] <= LARGEST_SHARE * numbers and numbers <= MAX_NUMBERS:
            return _places(x_NF, y_NK), numbers
    return None


def _places(x_NF: Array, y_NK: Array) -> tuple[int, ...]:
    found: list[int] = []
    for k in np.unique(np.linspace(0, y_NK.shape[1] - 1, COMPARED).astype(int)):
        y_N = y_NK[:, k]
        same_F = (x_NF == y_N[:, None]).all(axis=0)
        if len(np.unique(y_N)) <= len(y_N) // 2 or not same_F.any():
            return ()
        found.append(int(same_F.argmax()))
    return tuple(sorted(set(found)))
