"""Statistics of numpy arrays, in float64.

Shape suffixes: N = elements or rows, T = tensors, F = fields.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics import built
from mothtrap.statistics.digest import digest_bytes
from mothtrap.statistics.dtypes import dtype_of, name_of
from mothtrap.statistics.exponents import BINS, Counts, count_exponents
from mothtrap.statistics.summary import (
    COLUMN,
    WIDTH,
    Floats,
    columns_for,
    merge_segments,
    segment_norms,
)

Array = npt.NDArray[Any]

_LITTLE: Final = sys.byteorder == "little"
_KNOWN_TO_PYTHON: Final = "biufc"
"""Kinds of elements that a memoryview knows."""
_MOVED_AT_ONCE: Final = 1 << 18
"""Bytes, of which a copy takes some 30 us."""
_BLOCK: Final = 1 << 18  # elements at a time: temporaries of 2 MB stay in a CPU's cache


def summarize(arrays: Sequence[Array], statistics: Collection[str]) -> Floats:
    """Reduce each array to one row of sufficient statistics.

    Args:
        arrays: real, integer, boolean (as 0 and 1) or complex arrays of any shape; a
            complex one is taken as its real and imaginary parts, two elements each.
        statistics: ids out of `summary.STATISTICS`; columns that none needs may be NaN.

    Returns:
        float64, shape (T, F), rows as described in `summary`.

    Raises:
        UnknownNameError: there is no such statistic; names the nearest.
        TypeError, ValueError: an array whose elements are not numbers.
    """
    columns = columns_for(statistics)
    rows_TF = np.empty((len(arrays), WIDTH))
    first = np.zeros(1, dtype=np.intp)
    for index, array in enumerate(arrays):
        flat_N = _real(array).reshape(-1)
        blocks = [flat_N[at : at + _BLOCK] for at in range(0, len(flat_N), _BLOCK)]
        if not blocks:
            rows_TF[index] = constant_row(0, columns)
            continue
        with np.errstate(all="ignore"):  # NaN, Inf and what float64 cannot hold are data here
            rows = [summarize_segments(b.astype(np.float64), first, columns) for b in blocks]
        rows_TF[index] = merge_segments(np.concatenate(rows), first)[0]
    return rows_TF


def count_exponents_of(arrays: Sequence[Array]) -> Counts:
    """Return, int64, shape (T, 2, 64), what `exponents.count_exponents` counts of each array."""
    found = [count_exponents(array) for array in arrays]
    return np.array(found, np.int64).reshape(len(arrays), 2, BINS)


def describe(array: Array) -> tuple[str, tuple[int, ...], int]:
    """Return element type, shape and number of bytes of an array.

    Raises:
        UnknownNameError: its elements are no numbers.
    """
    return name_of(array.dtype), array.shape, array.nbytes


def copy_bytes(array: Array, out_N: npt.NDArray[np.uint8]) -> None:
    """Write an array in C order, little-endian, to `array.nbytes` bytes."""
    dtype = array.dtype
    if not (array.flags.c_contiguous and dtype.isnative and _LITTLE):
        np.copyto(out_N.view(dtype_of(name_of(dtype))).reshape(array.shape), array)
    elif built.arrays is not None and dtype.kind in _KNOWN_TO_PYTHON:
        built.arrays.copy(array, out_N)
    elif 0 < array.nbytes <= _MOVED_AT_ONCE and dtype.kind in _KNOWN_TO_PYTHON:
        out_N.data[:] = array.data.cast("B")  # a view as bytes takes longer to make
    else:
        move_bytes(array.reshape(-1).view(np.uint8), out_N)


def gather_bytes(
    arrays: Sequence[Array], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
) -> None:
    """Write many arrays as `copy_bytes` does, each from a place of the same memory on.

    Args:
        arrays: as in `describe`.
        begins: of each, the place of its first byte.
        out_N: uint8, large enough.
    """
    lie = [built.arrays is not None and _lies_in_order(array) for array in arrays]
    if all(lie):
        pieces = np.empty((len(begins), 3), np.int64)
        pieces[:, 2] = begins
        built.arrays.locate([*arrays], pieces)
        built.arrays.gather(pieces, out_N)
        return
    for array, begin in zip(arrays, begins, strict=True):
        copy_bytes(array, out_N[begin : begin + array.nbytes])


def _lies_in_order(array: Array) -> bool:
    """Whether the bytes of an array are as they are stored, and Python knows their type."""
    dtype = array.dtype
    return (
        _LITTLE and array.flags.c_contiguous and dtype.isnative and dtype.kind in _KNOWN_TO_PYTHON
    )


def move_bytes(data_N: npt.NDArray[np.uint8], out_N: npt.NDArray[np.uint8]) -> None:
    """Copy bytes; few of them without letting another thread in between.

    A thread that is let in for 5 us is woken, and wakes the one that waits for it: that is
    dearer than the copy.
    """
    if data_N.nbytes <= _MOVED_AT_ONCE:
        out_N.data[:] = data_N.data
    else:
        np.copyto(out_N, data_N)


def digest(array: Array) -> int:
    """Return the xxh3_64 of the elements in C order, seeded by type and shape."""
    return digest_bytes(
        np.ascontiguousarray(array).reshape(-1).view(np.uint8), array.dtype.name, array.shape
    )


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
    """Return the row, shape (F,), of `count` zeros; of an empty array when `count` is 0."""
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


def _real(array: Array) -> Array:
    if np.iscomplexobj(array):
        flat = np.ascontiguousarray(array).reshape(-1)
        return flat.view(flat.real.dtype)
    return array


def _counts(flags_N: npt.NDArray[np.bool_], starts_T: npt.NDArray[np.intp]) -> Floats:
    count_T: Floats = np.add.reduceat(flags_N, starts_T, dtype=np.float64)
    return count_T


def _means(values_N: Floats, starts_T: npt.NDArray[np.intp], finite_T: Floats) -> Floats:
    divisor_T = np.maximum(finite_T, 1.0)
    mean_T: Floats = np.add.reduceat(values_N, starts_T) / divisor_T
    if not np.isfinite(mean_T).all():  # the sum left float64: divide first
        lengths_T = np.diff(starts_T, append=len(values_N))
        mean_T = np.add.reduceat(values_N / np.repeat(divisor_T, lengths_T), starts_T)
    return mean_T
