"""Histograms in TensorBoard's form: float64, shape (B, 3), left edge, right edge, count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mothtrap.statistics.exponents import EDGES

Floats = npt.NDArray[np.float64]

BUCKETS = 30
"""Number of buckets of a histogram: TensorBoard's default."""
_HUGE = 1e307


def buckets(finite_N: Floats) -> Floats:
    """Compute a histogram of values.

    Args:
        finite_N: float64, shape (N,), N >= 1, finite.

    Returns:
        float64, shape (BUCKETS, 3). If float64 has no numbers between the smallest and the largest
        value, all values are in the last bucket.
    """
    low, high = finite_N.min(), finite_N.max()
    scale = 0.25 if max(abs(low), abs(high)) > _HUGE else 1.0  # ranges must not overflow
    edge_E = np.linspace(low * scale, high * scale, BUCKETS + 1) / scale
    edge_E[0], edge_E[-1] = low, high
    if np.any(np.diff(edge_E * scale) <= 0):
        count_B = np.zeros(BUCKETS)
        count_B[-1] = len(finite_N)
        return np.stack([np.full(BUCKETS, low), np.full(BUCKETS, high), count_B], axis=1)
    count_B = np.histogram(finite_N, bins=edge_E)[0].astype(np.float64)
    return np.stack([edge_E[:-1], edge_E[1:], count_B], axis=1)


def power_buckets(count_2P: npt.NDArray[np.int64]) -> Floats:
    """Convert a captured histogram over powers of two to buckets.

    Args:
        count_2P: int64, shape (2, P), as `statistics.exponents.count_exponents` returns it.

    Returns:
        float64, shape (B, 3) with B from 2 to 2 P, ascending: the buckets up to the largest
        magnitude that was counted, with both signs, because a viewer draws all of them. The
        innermost buckets extend to 0, and contain values below the lowest power; the buckets of the
        highest power also contain values above it.
    """
    held_P = np.flatnonzero(count_2P.any(axis=0))
    count_2P = count_2P[:, : held_P[-1] + 1 if len(held_P) else 1]
    near_P = EDGES[: count_2P.shape[1]].copy()
    far_P = 2 * near_P
    near_P[0] = 0.0
    count_2P = count_2P.astype(np.float64)
    negative = np.stack([-far_P, -near_P, count_2P[0]], axis=1)[::-1]
    return np.concatenate([negative, np.stack([near_P, far_P, count_2P[1]], axis=1)])
