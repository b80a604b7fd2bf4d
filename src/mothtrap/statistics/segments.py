"""Sufficient statistics in float64, over runs of consecutive values.

Shape suffixes: N = elements, T = runs, F = fields.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from mothtrap.statistics.summary import COLUMN, WIDTH, Floats, segment_norms


def summarize_segments(
    values_N: Floats, starts_T: npt.NDArray[np.intp], columns: Collection[str]
) -> Floats:
    """Reduce each run of consecutive values to one row.

    Args:
        values_N: float64, shape (N,), N > 0; NaN and Inf may occur; not modified.
        starts_T: shape (T,), strictly ascending, the first value of each run; 0 first.
        columns: the columns to fill, out of `summary.FIELDS`.

    Returns:
        float64, shape (T, F); other columns are NaN. Numpy may warn of overflow: the caller
        sets `numpy.errstate`.
    """
    lengths_T = np.diff(starts_T, append=len(values_N))
    rows_TF = np.full((len(starts_T), WIDTH), np.nan)
    rows_TF[:, COLUMN["count"]] = lengths_T
    if "zero" in columns:
        rows_TF[:, COLUMN["zero"]] = _counts(values_N == 0, starts_T)
    if "nan" not in columns:
        return rows_TF
    finite_N = np.isfinite(values_N)
    clean = bool(finite_N.all())
    nan_T = np.zeros(len(starts_T)) if clean else _counts(np.isnan(values_N), starts_T)
    bad_T = np.zeros(len(starts_T)) if clean else _counts(~finite_N, starts_T)
    rows_TF[:, COLUMN["nan"]] = nan_T
    rows_TF[:, COLUMN["inf"]] = bad_T - nan_T
    hollow_T = bad_T == lengths_T
    if "min" in columns:
        low_N = values_N if clean else np.where(finite_N, values_N, np.inf)
        low_T = np.minimum.reduceat(low_N, starts_T)
        rows_TF[:, COLUMN["min"]] = np.where(hollow_T, np.nan, low_T)
    if "max" in columns:
        high_N = values_N if clean else np.where(finite_N, values_N, -np.inf)
        high_T = np.maximum.reduceat(high_N, starts_T)
        rows_TF[:, COLUMN["max"]] = np.where(hollow_T, np.nan, high_T)
    masked_N = values_N if clean else np.where(finite_N, values_N, 0.0)
    if "abs_sum" in columns:
        rows_TF[:, COLUMN["abs_sum"]] = np.add.reduceat(np.abs(masked_N), starts_T)
    if "l2" in columns:
        rows_TF[:, COLUMN["l2"]] = segment_norms(masked_N, starts_T)
    if "mean" in columns:
        mean_T = _means(masked_N, starts_T, lengths_T - bad_T)
        rows_TF[:, COLUMN["mean"]] = np.where(hollow_T, np.nan, mean_T)
        if "deviation_l2" in columns:
            apart_N = masked_N - np.repeat(mean_T, lengths_T)
            if not clean:
                apart_N[~finite_N] = 0.0
            rows_TF[:, COLUMN["deviation_l2"]] = segment_norms(apart_N, starts_T)
    return rows_TF


def constant_row(count: int, columns: Collection[str]) -> Floats:
    """Return the row, shape (F,), of `count` zeros; the row of an empty array if `count` is 0."""
    row_F = np.full(WIDTH, np.nan)
    for name in ("nan", "inf", "deviation_l2", "abs_sum", "l2"):
        if name in columns:
            row_F[COLUMN[name]] = 0.0
    row_F[COLUMN["count"]] = count
    if "zero" in columns:
        row_F[COLUMN["zero"]] = count
    for name in ("min", "max", "mean"):
        if name in columns and count:
            row_F[COLUMN[name]] = 0.0
    return row_F


def _counts(flags_N: npt.NDArray[np.bool_], starts_T: npt.NDArray[np.intp]) -> Floats:
    count_T: Floats = np.add.reduceat(flags_N, starts_T, dtype=np.float64)
    return count_T


def _means(values_N: Floats, starts_T: npt.NDArray[np.intp], finite_T: Floats) -> Floats:
    divisor_T = np.maximum(finite_T, 1.0)
    mean_T: Floats = np.add.reduceat(values_N, starts_T) / divisor_T
    if not np.isfinite(mean_T).all():  # the sum overflows float64: divide first
        lengths_T = np.diff(starts_T, append=len(values_N))
        mean_T = np.add.reduceat(values_N / np.repeat(divisor_T, lengths_T), starts_T)
    return mean_T
