"""Rows of sufficient statistics: their columns, how to merge them, and derived statistics.

A row has the columns of `FIELDS`, float64. `count`, `nan`, `inf`, `zero` are numbers of elements,
exact; `min`, `max`, `mean`, `deviation_l2` (the root of the sum of squared deviations from the
mean), `abs_sum` and `l2` are computed over the finite elements. If a tensor has no finite element,
`min`, `max` and `mean` are NaN and the sums are 0. A column that was not computed is NaN: not
captured. So NaN in `min`, `max` or `mean` means "no finite element" when `count - nan - inf` is 0,
and "not captured" otherwise; NaN elsewhere always means "not captured". `summarize` never fills
`inactive`, `saturated` and `update_ratio`: they need more than one tensor, so the code that
captures them writes them into the row.

Shape suffixes: N = rows, T = tensors, F = fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import UnknownNameError, nearest

Floats = npt.NDArray[np.float64]

FIELDS: Final = (
    "count",
    "nan",
    "inf",
    "zero",
    "min",
    "max",
    "mean",
    "deviation_l2",
    "abs_sum",
    "l2",
    "inactive",
    "saturated",
    "update_ratio",
)
WIDTH: Final = len(FIELDS)
COLUMN: Final = MappingProxyType({name: index for index, name in enumerate(FIELDS)})

EMPTY: Final[Floats] = np.full(WIDTH, np.nan)
"""Row in which nothing was captured. Read-only; copy it to fill it."""
EMPTY.setflags(write=False)

# Columns from which a statistic is derived, besides `count`. Reading the values also detects
# non-finite ones, so all statistics of values include nan and inf.
_NEEDED: Final = MappingProxyType(
    {
        "count": (),
        "nan": ("nan", "inf"),
        "inf": ("nan", "inf"),
        "zero": ("zero",),
        "min": ("nan", "inf", "min"),
        "max": ("nan", "inf", "max"),
        "mean": ("nan", "inf", "mean"),
        "std": ("nan", "inf", "mean", "deviation_l2"),
        "abs_mean": ("nan", "inf", "abs_sum"),
        "abs_max": ("nan", "inf", "min", "max"),
        "l2": ("nan", "inf", "l2"),
        "inactive": ("inactive",),
        "saturated": ("saturated",),
        "update_ratio": ("update_ratio",),
    }
)
STATISTICS: Final = tuple(_NEEDED)
"""Statistics that `derive` supports."""

# Squares of numbers between these neither overflow nor underflow float64, nor do sums of 1e20.
_SQUARE_SAFE: Final = (1e-140, 1e140)


def columns_for(statistics: Collection[str]) -> frozenset[str]:
    """Return the columns from which some statistics are derived.

    Args:
        statistics: ids out of `STATISTICS`.

    Raises:
        UnknownNameError: there is no such statistic; the message suggests one.
    """
    return frozenset({"count"}.union(*(_needed(statistic) for statistic in statistics)))


def derive(summary_TF: Floats, statistic: str) -> Floats:
    """Return one statistic of every row.

    Args:
        summary_TF: float64, shape (T, F), rows as described at the top.
        statistic: one of `STATISTICS`; `std` is the population's.

    Returns:
        float64, shape (T,), for the finite elements only: `l2` of a tensor with some NaN is the
        norm of the rest. NaN if the statistic was not captured or the tensor has no finite element;
        `l2` of a tensor without any element is 0. Only `abs_mean`, `l2` and `std` can be infinite,
        if they exceed float64.

    Raises:
        UnknownNameError: there is no such statistic; the message suggests one.
    """
    value_T = derive_from(lambda name: summary_TF[:, COLUMN[name]], statistic)
    return value_T.copy() if value_T.base is not None else value_T


def derive_from(column: Callable[[str], Floats], statistic: str) -> Floats:
    """Return one statistic of every row, like `derive`, for rows stored as columns.

    Args:
        column: returns a column of the rows by its name in `FIELDS`; called only for those in
            `columns_for`.
        statistic: one of `STATISTICS`.

    Returns:
        As for `derive`; it may be a column itself, so do not write to it.
    """
    _needed(statistic)
    if statistic == "l2":
        return _norms(column)
    if statistic in COLUMN:
        return column(statistic)
    if statistic == "abs_max":
        return np.maximum(np.abs(column("min")), np.abs(column("max")))
    finite_T = column("count") - column("nan") - column("inf")
    finite_T[finite_T == 0] = np.nan
    with np.errstate(all="ignore"):  # NaN and Inf are valid data here
        if statistic == "abs_mean":
            return column("abs_sum") / finite_T
        return column("deviation_l2") / np.sqrt(finite_T)


def merge(rows_NF: Floats) -> Floats:
    """Merge the rows of disjoint parts into the row of the whole.

    Exact except for rounding, in any order. A column that is missing in one part is missing in the
    result. Shares of units and ratios do not add up from parts, so `inactive`, `saturated` and
    `update_ratio` survive only a merge of a single row.

    Args:
        rows_NF: float64, shape (N, F).

    Returns:
        float64, shape (F,). `EMPTY` for no rows.
    """
    if len(rows_NF) == 0:
        return EMPTY.copy()
    merged: Floats = merge_segments(rows_NF, np.zeros(1, dtype=np.intp))[0]
    return merged


def merge_segments(rows_NF: Floats, starts_T: npt.NDArray[np.intp]) -> Floats:
    """Merge consecutive rows: `merge` for many tensors at once.

    Args:
        rows_NF: float64, shape (N, F), the rows of one tensor next to each other.
        starts_T: shape (T,), strictly ascending, the first row of each tensor; 0 first.

    Returns:
        float64, shape (T, F).
    """
    with np.errstate(all="ignore"):  # NaN and Inf are valid data here
        return _merge_segments(rows_NF, starts_T)


def _merge_segments(rows_NF: Floats, starts_T: npt.NDArray[np.intp]) -> Floats:
    lengths_T = np.diff(starts_T, append=len(rows_NF))
    column = {name: rows_NF[:, index] for name, index in COLUMN.items()}
    merged_TF = np.full((len(starts_T), WIDTH), np.nan)
    for name in ("count", "nan", "inf", "zero", "abs_sum"):
        merged_TF[:, COLUMN[name]] = np.add.reduceat(column[name], starts_T)
    finite_N, finite_T = _finite_count(rows_NF), _finite_count(merged_TF)
    # A part without finite elements must not spread its NaN; a missing column must.
    hollow_N = finite_N == 0
    lowest_N = np.where(hollow_N, np.inf, column["min"])
    highest_N = np.where(hollow_N, -np.inf, column["max"])
    share_N = finite_N / np.repeat(np.where(finite_T == 0, 1.0, finite_T), lengths_T)
    mean_N = np.where(hollow_N, 0.0, column["mean"])
    mean_T = np.add.reduceat(share_N * mean_N, starts_T)
    # Chan, Golub, LeVeque (1979): deviations inside the parts, and of their means.
    apart_N = np.sqrt(finite_N) * (mean_N - np.repeat(mean_T, lengths_T))
    inside_T = segment_norms(column["deviation_l2"], starts_T)
    merged_TF[:, COLUMN["deviation_l2"]] = np.hypot(inside_T, segment_norms(apart_N, starts_T))
    merged_TF[:, COLUMN["l2"]] = segment_norms(column["l2"], starts_T)
    for name, value_T in (
        ("min", np.minimum.reduceat(lowest_N, starts_T)),
        ("max", np.maximum.reduceat(highest_N, starts_T)),
        ("mean", mean_T),
    ):
        merged_TF[:, COLUMN[name]] = np.where(finite_T == 0, np.nan, value_T)
    merged_TF[lengths_T == 1] = rows_NF[starts_T[lengths_T == 1]]
    return merged_TF


def segment_norms(values_N: Floats, starts_T: npt.NDArray[np.intp]) -> Floats:
    """Return the Euclidean norm of each run of values, even if squares overflow float64.

    Args:
        values_N: float64, shape (N,); a NaN makes the norm of its run NaN.
        starts_T: shape (T,), strictly ascending, the first value of each run; 0 first.

    Returns:
        float64, shape (T,), Inf only if the norm itself exceeds float64.
    """
    peak_T = np.maximum.reduceat(np.abs(values_N), starts_T)
    low, high = _SQUARE_SAFE
    if np.all((peak_T == 0) | np.isnan(peak_T) | ((peak_T > low) & (peak_T < high))):
        scale_T, scaled_N = np.ones_like(peak_T), values_N
    else:
        scale_T = np.where(np.isfinite(peak_T) & (peak_T > 0), peak_T, 1.0)
        with np.errstate(all="ignore"):
            scaled_N = values_N / np.repeat(scale_T, np.diff(starts_T, append=len(values_N)))
    with np.errstate(all="ignore"):  # small squares next to large ones may vanish
        norm_T: Floats = scale_T * np.sqrt(np.add.reduceat(scaled_N * scaled_N, starts_T))
    return norm_T


def _needed(statistic: str) -> tuple[str, ...]:
    if statistic not in _NEEDED:
        raise UnknownNameError(
            f"there is no statistic {statistic!r}{nearest(statistic, STATISTICS)}; "
            f"known statistics: {', '.join(STATISTICS)}"
        )
    return _NEEDED[statistic]


def _norms(column: Callable[[str], Floats]) -> Floats:
    """Return the norms; NaN if a row has no finite element, whose sum is 0."""
    norm_T = column("l2")
    if (norm_T == 0).any():
        count_T = column("count")
        hollow_T = (count_T - column("nan") - column("inf") == 0) & (count_T > 0)
        norm_T = np.where(hollow_T, np.nan, norm_T)
    return norm_T


def _finite_count(rows_NF: Floats) -> Floats:
    finite_N: Floats = (
        rows_NF[:, COLUMN["count"]] - rows_NF[:, COLUMN["nan"]] - rows_NF[:, COLUMN["inf"]]
    )
    return finite_N
