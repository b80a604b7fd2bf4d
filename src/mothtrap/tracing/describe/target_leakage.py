"""Columns of the model's input, each of which leaks the target.

Shape suffixes: N = rows, F = columns, K = classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.statistics.products import between

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

MIN_ROWS = 16
"""Minimum number of rows to report a column; chosen by hand."""
MIN_COLUMNS, MAX_COLUMNS = 3, 1024
MAX_WIDE, WIDE_ROWS = 8192, 128
"""Maximum number of columns if the target is a number, such as a window of many series, and the
number of rows that are compared then.
"""
MAX_ROWS = 1024
MAX_CLASSES = 32
SEPARATION = 20.0
"""Minimum distance of the nearest two classes in a column, in standard deviations within a class,
for the column to count as the label itself; chosen by hand: a good feature has 5.
"""
CORRELATION, OTHERS = 0.999, 0.98
"""Minimum correlation with a numeric target for a column to count as its copy, and maximum
correlation of all other columns. In a smooth series, neighboring values are similar, and so are the
last values and the next one. Chosen by hand.
"""
EXACT, LEAST_ERROR, FARTHER = 1e-6, 1e-10, 1000.0
"""Distance of a correlation from 1 at which a column is an exact copy, the distance that rounding
causes, and how many times as far all other columns must be. Then the other columns may be similar:
a smooth series contains the value itself. Chosen by hand.
"""


def is_table(shape: Sequence[int], rows: int) -> bool:
    """Return whether an input of floats of this shape is a table of `rows` rows.

    A small image or a series also counts as a row of numbers.
    """
    columns = int(np.prod(shape[1:]))
    long_enough = len(shape) >= 2 and shape[0] == rows >= MIN_ROWS
    return long_enough and MIN_COLUMNS <= columns <= MAX_WIDE


def compared_rows(shape: Sequence[int]) -> int:
    """Return how many of the first rows of a table are compared."""
    return WIDE_ROWS if int(np.prod(shape[1:])) > MAX_COLUMNS else MAX_ROWS


def telling_columns(inputs: Sequence[Array], target: Array) -> tuple[tuple[int, ...], int] | None:
    """Find the columns that leak the target.

    Args:
        inputs: Arrays that the model was called with. The first table of floats counts,
            shape (N, ...).
        target: One number or label for each row, N elements.

    Returns:
        The columns, and the number of columns in the table; None if there is no such table or
        target.
    """
    table = next(
        (x for x in inputs if x.dtype.kind == "f" and is_table(x.shape, target.size)), None
    )
    if table is None:
        return None
    rows = min(len(table), compared_rows(table.shape))
    x_NF = table[:rows].reshape(rows, -1).astype(np.float64)
    y_N = target.reshape(-1)[:rows].astype(np.float64)
    if not np.isfinite(x_NF).all() or not np.isfinite(y_N).all():
        return None
    values, place_N, size_K = np.unique(y_N, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if len(values) <= min(MAX_CLASSES, len(y_N) // 4):
            if x_NF.shape[1] > MAX_COLUMNS:
                return None
            found_F = _separates(x_NF, place_N, size_K)
        elif target.dtype.kind == "f":
            found_F = _correlates(x_NF, y_N)
        else:
            return None
    return tuple(np.flatnonzero(found_F).tolist()), x_NF.shape[1]


def _separates(x_NF: Array, place_N: Array, size_K: Array) -> Bools:
    """Return which columns separate the classes.

    One column may contain the label itself, or each class may have an indicator column.
    Columns that separate a single class count only if they do so for all classes but one.
    """
    indicator_NK = np.eye(len(size_K))[place_N]
    mean_KF = between(indicator_NK, x_NF) / size_K[:, None]
    inside_F = np.sqrt(np.square(x_NF - mean_KF[place_N]).mean(axis=0))
    ordered_KF = np.sort(mean_KF, axis=0)
    gap_F = np.diff(ordered_KF, axis=0).min(axis=0)
    whole_F: Bools = (gap_F > SEPARATION * inside_F) & (gap_F > 1e-6)
    if whole_F.any() or len(size_K) == 2:
        return whole_F
    count, total_F, square_F = len(x_NF), x_NF.sum(axis=0), np.square(x_NF).sum(axis=0)
    rest_KF = (total_F - size_K[:, None] * mean_KF) / (count - size_K)[:, None]
    within_KF = square_F - size_K[:, None] * mean_KF**2 - (count - size_K)[:, None] * rest_KF**2
    spread_KF = np.sqrt(np.maximum(within_KF, 0) / count)
    apart_KF = (np.abs(mean_KF - rest_KF) > SEPARATION * spread_KF) & (
        ordered_KF[-1] > ordered_KF[0]
    )
    if apart_KF.any(axis=1).sum() < len(size_K) - 1:
        return np.zeros_like(whole_F)
    return np.asarray(apart_KF.any(axis=0))


def _correlates(x_NF: Array, y_N: Array) -> Bools:
    """Return which columns are copies of a numeric target, up to scale and offset.

    Similar columns, as in a window of a smooth series, hide a copy unless it is exact.
    """
    x_NF, y_N = x_NF - x_NF.mean(axis=0), y_N - y_N.mean()
    scale_F = np.sqrt(np.square(x_NF).sum(axis=0) * np.square(y_N).sum())
    alike_F = np.where(scale_F > 0, np.abs(between(y_N[:, None], x_NF)[0]) / scale_F, 0.0)
    copies_F: Bools = alike_F > CORRELATION
    error_F = np.maximum(1.0 - alike_F, LEAST_ERROR)
    exact_F: Bools = error_F < EXACT
    others_F = error_F[~exact_F]
    if exact_F.any() and others_F.size and others_F.min() > FARTHER * error_F[exact_F].max():
        return exact_F
    if ((alike_F > OTHERS) & ~copies_F).any():
        return np.zeros_like(copies_F)
    return copies_F
