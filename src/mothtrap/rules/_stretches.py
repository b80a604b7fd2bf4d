"""Runs of True in a boolean sequence, and moving medians."""

from __future__ import annotations

import numpy as np

from mothtrap.core.window import Bools, Floats


def stretches(mask_S: Bools) -> list[tuple[int, int]]:
    """Return `(start, stop)` of every maximal run of True, in order; `stop` is exclusive."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask_S, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def last_stretch(mask_S: Bools) -> tuple[int, int] | None:
    """Return the run of True that reaches the end, or None when the end is False."""
    if not len(mask_S) or not mask_S[-1]:
        return None
    false = np.flatnonzero(~mask_S)
    return (int(false[-1]) + 1 if len(false) else 0), len(mask_S)


def block_medians(values_S: Floats, size: int) -> Floats:
    """Return the medians of consecutive blocks of `size`, aligned to the end.

    An incomplete block at the beginning is left out.
    """
    count = len(values_S) // size
    if not count:
        return np.empty(0)
    medians: Floats = np.median(values_S[-count * size :].reshape(count, size), axis=1)
    return medians


def share_below(later_S: Floats, earlier_S: Floats) -> float:
    """Return the share of pairs in which the later value is below the earlier one.

    0.5 = no trend, 1 = every later value is smaller; ties count half.
    """
    ordered = np.sort(earlier_S)
    above = len(ordered) - np.searchsorted(ordered, later_S, side="right")
    tied = np.searchsorted(ordered, later_S, side="right") - np.searchsorted(ordered, later_S)
    return float((above + 0.5 * tied).mean() / len(ordered))
