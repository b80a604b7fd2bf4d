"""Curves of any length as a bounded number of buckets.

A bucket covers `width` steps, a power of two, and begins at a multiple of it: additional rows fill
later buckets and never move earlier buckets. Shape suffixes: N = rows, B = buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mothtrap.core.window import Floats, Ints
from mothtrap.reader.series.step_values import step_values

Bytes = npt.NDArray[np.uint8]

NAN, INF, NEGATIVE_INF = 1, 2, 4
"""Bits of `bad_B`: values that are not finite, kept apart from the numbers."""


class Buckets(NamedTuple):
    """Aggregated rows of a curve.

    Attributes:
        step_B: int64, step of the first row of each bucket, ascending.
        min_B, max_B: float64, of the finite rows; NaN if there are none.
        last_B: float64, the last finite row, or the value of the last step if `known` was given.
        bad_B: uint8, which values that are not finite are among the rows.
        width: steps that a bucket covers, a power of two.
    """

    step_B: Ints
    min_B: Floats
    max_B: Floats
    last_B: Floats
    bad_B: Bytes
    width: int


def width_for(begin: int, end: int, most: int) -> int:
    """Return the smallest power of two with which the steps fill at most `most` buckets.

    Args:
        begin: first step.
        end: number after the last step.
        most: maximum number of buckets, at least 2.
    """
    width = 1
    while (end - 1) // width - begin // width + 1 > most:
        width *= 2
    return width


def bad_bits(value_N: Floats) -> Bytes:
    """Return which kind of non-finite value each row has, 0 for a number."""
    bits: Bytes = np.isnan(value_N) * np.uint8(NAN)
    bits |= (value_N == np.inf) * np.uint8(INF)
    bits |= (value_N == -np.inf) * np.uint8(NEGATIVE_INF)
    return bits


def joined(
    step_N: Ints,
    value_N: Floats,
    bad_N: Bytes,
    most: int,
    known: Mapping[int, float] | None = None,
) -> Buckets:
    """Aggregate rows into buckets.

    Args:
        step_N: step of each row, in any order; rows of the same step keep their order.
        value_N: may contain NaN and infinities.
        bad_N: as returned by `bad_bits`, plus bits of a row that are known otherwise.
        most: maximum number of buckets, at least 2.
        known: known values by step; the value of every other step is the mean of its rows, see
            `step_values`. None: the last row counts.
    """
    if not len(step_N):
        nothing = np.empty(0)
        return Buckets(step_N, nothing, nothing, nothing, np.empty(0, np.uint8), 1)
    if np.any(np.diff(step_N) < 0):
        order_N = np.argsort(step_N, kind="stable")
        step_N, value_N, bad_N = step_N[order_N], value_N[order_N], bad_N[order_N]
    width = width_for(int(step_N[0]), int(step_N[-1]) + 1, most)
    start_B = np.flatnonzero(np.diff(step_N // width, prepend=-1))
    min_B, max_B, last_B = extremes(value_N, start_B)
    if known is not None:
        step_U, value_U = step_values(step_N, value_N, known)
        last_B = extremes(value_U, np.flatnonzero(np.diff(step_U // width, prepend=-1)))[2]
    return Buckets(
        step_N[start_B], min_B, max_B, last_B, np.bitwise_or.reduceat(bad_N, start_B), width
    )


def extremes(value_N: Floats, start_B: npt.NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Return minimum, maximum and last of the finite values of each group of rows.

    Args:
        value_N: may contain NaN and infinities.
        start_B: start of each group, ascending, from 0.
    """
    finite_N = np.isfinite(value_N)
    number_N = np.where(finite_N, value_N, np.nan)
    place_N = np.where(finite_N, np.arange(len(value_N)), -1)
    place_B = np.maximum.reduceat(place_N, start_B)
    last_B = np.where(place_B >= 0, number_N[place_B], np.nan)
    return np.fmin.reduceat(number_N, start_B), np.fmax.reduceat(number_N, start_B), last_B
