"""Statistics of NumPy arrays: by the compiled part for arrays in plain memory, else in float64.

Shape suffixes: N = elements or rows, T = tensors, F = fields.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics import built
from mothtrap.statistics import compiled as in_memory
from mothtrap.statistics.digest import COLUMNS, Digests, digest_bits, digest_bytes, row_bits
from mothtrap.statistics.dtypes import dtype_of, name_of
from mothtrap.statistics.exponents import BINS, Counts, count_exponents
from mothtrap.statistics.segments import constant_row, summarize_segments
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats, columns_for, merge_segments

Array = npt.NDArray[Any]

_LITTLE: Final = sys.byteorder == "little"
_KNOWN_TO_PYTHON: Final = "biufc"
"""Kinds of elements that a memoryview supports."""
_MOVED_AT_ONCE: Final = 1 << 18
"""Number of bytes whose copy takes about 30 us."""
_BLOCK: Final = 1 << 18  # elements per block, so that temporaries of 2 MB stay in a CPU's cache
_VALUES: Final = {"nan", "zero"}
"""One of these columns is needed whenever values are read."""
_NORM: Final = frozenset({"l2", "nan", "inf"})
_LOOKED_AT: Final = [COLUMN[name] for name in ("count", "nan", "inf", "l2")]

_columns = functools.cache(columns_for)


def summarize(arrays: Sequence[Array], statistics: Collection[str]) -> Floats:
    """Reduce each array to one row of sufficient statistics.

    Args:
        arrays: real, integer, boolean (as 0 and 1) or complex arrays of any shape; a complex array
            counts as its real and imaginary parts, two elements each.
        statistics: ids from `summary.STATISTICS`; columns that none of them needs may be NaN.

    Returns:
        float64, shape (T, F), rows as described in `summary`; as accurate as the rows of
        `statistics.torch.summarize`.

    Raises:
        UnknownNameError: there is no such statistic; the message suggests one.
        TypeError, ValueError: the elements of an array are not numbers.
    """
    columns = _columns(frozenset(statistics))
    rows_TF = np.empty((len(arrays), WIDTH))
    left_T = np.ones(len(arrays), np.bool_)
    if columns & _VALUES:
        reals, places_T3 = _places(arrays, in_memory.SUMMARIZED)
        direct = np.flatnonzero(places_T3[:, 2] >= 0)
        if len(direct):
            rows_TF[direct], right_T = in_memory.summaries(places_T3[direct])
            left_T[direct] = ~right_T
        del reals
    for index in np.flatnonzero(left_T).tolist():
        rows_TF[index] = _exact_row(arrays[index], columns)
    return rows_TF


def norms(arrays: Sequence[Array]) -> Floats:
    """Return `count`, `nan`, `inf` and `l2` of each array, the cheapest statistics.

    Args:
        arrays: as for `summarize`.

    Returns:
        float64, shape (T, F); the other columns are NaN.
    """
    rows_TF = np.full((len(arrays), WIDTH), np.nan)
    reals, places_T3 = _places(arrays, in_memory.SUMMARIZED)
    direct = np.flatnonzero(places_T3[:, 2] >= 0)
    left_T = np.ones(len(arrays), np.bool_)
    if len(direct):
        l2_T = in_memory.norms(places_T3[direct])
        rows_TF[direct, COLUMN["count"]] = places_T3[direct, 1]
        rows_TF[direct, COLUMN["nan"]] = rows_TF[direct, COLUMN["inf"]] = 0.0
        rows_TF[direct, COLUMN["l2"]] = l2_T
        left_T[direct] = ~np.isfinite(l2_T)
    del reals
    for index in np.flatnonzero(left_T).tolist():
        row_F = _exact_row(arrays[index], _columns(_NORM))
        rows_TF[index, _LOOKED_AT] = row_F[_LOOKED_AT]
    return rows_TF


def count_exponents_of(arrays: Sequence[Array]) -> Counts:
    """Apply `exponents.count_exponents` to each array; int64, shape (T, 2, 64)."""
    found = np.zeros((len(arrays), 2, BINS), np.int64)
    reals, places_T3 = _places(arrays, in_memory.SUMMARIZED)
    direct_T = places_T3[:, 2] >= 0
    if direct_T.any():
        counts = in_memory.tallies(places_T3[direct_T])[:, : 2 * BINS]
        found[direct_T] = counts.reshape(-1, 2, BINS)
    del reals
    for index in np.flatnonzero(~direct_T).tolist():
        found[index] = count_exponents(arrays[index])
    return found


def _places(
    arrays: Sequence[Array], names: tuple[str, ...]
) -> tuple[list[Array], in_memory.Integers]:
    """Return the addresses of arrays' elements, in any order, and views that keep them alive."""
    views = [_in_memory_order(_real(array)) for array in arrays]
    kinds = [_kind(view.dtype, names) if view.flags.c_contiguous else -1 for view in views]
    return views, in_memory.places(views, kinds, [view.itemsize for view in views])


def _in_memory_order(array: Array) -> Array:
    return array.T if array.flags.f_contiguous else array


@functools.cache
def _kind(dtype: np.dtype[Any], names: tuple[str, ...]) -> int:
    return names.index(dtype.name) if dtype.name in names and _is_plain(dtype) else -1


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return _LITTLE and dtype.isnative


def _exact_row(array: Array, columns: frozenset[str]) -> Floats:
    """Return the row, shape (F,), of an array, computed block by block in float64."""
    first = np.zeros(1, dtype=np.intp)
    flat_N = _real(array).reshape(-1)
    blocks = [flat_N[at : at + _BLOCK] for at in range(0, len(flat_N), _BLOCK)]
    if not blocks:
        return constant_row(0, columns)
    with np.errstate(all="ignore"):  # NaN, Inf and values beyond float64 are valid data here
        rows = [summarize_segments(b.astype(np.float64), first, columns) for b in blocks]
    row_F: Floats = merge_segments(np.concatenate(rows), first)[0]
    return row_F


def describe(array: Array) -> tuple[str, tuple[int, ...], int]:
    """Return the element type, shape and number of bytes of an array.

    Raises:
        UnknownNameError: its elements are not numbers.
    """
    return name_of(array.dtype), array.shape, array.nbytes


def copy_bytes(array: Array, out_N: npt.NDArray[np.uint8]) -> None:
    """Write an array in C order, little-endian, to `array.nbytes` bytes."""
    dtype = array.dtype
    if not (array.flags.c_contiguous and dtype.isnative and _LITTLE):
        np.copyto(out_N.view(dtype_of(name_of(dtype))).reshape(array.shape), array)
    elif built.arrays is not None and _is_known_to_python(dtype):
        built.arrays.copy(array, out_N)
    elif 0 < array.nbytes <= _MOVED_AT_ONCE and _is_known_to_python(dtype):
        out_N.data[:] = array.data.cast("B")  # a view as bytes takes longer to create
    else:
        move_bytes(array.reshape(-1).view(np.uint8), out_N)


def gather_bytes(
    arrays: Sequence[Array], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
) -> None:
    """Write several arrays like `copy_bytes`, each from an offset in the same memory.

    Args:
        arrays: as in `describe`.
        begins: position of the first byte of each array.
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


def _is_known_to_python(dtype: np.dtype[Any]) -> bool:
    # Types of ml_dtypes have the kind of floats, or none.
    return dtype.isbuiltin == 1 and dtype.kind in _KNOWN_TO_PYTHON


def _lies_in_order(array: Array) -> bool:
    """Return whether an array is stored in C order with a type that Python supports."""
    dtype = array.dtype
    return _LITTLE and array.flags.c_contiguous and dtype.isnative and _is_known_to_python(dtype)


def move_bytes(data_N: npt.NDArray[np.uint8], out_N: npt.NDArray[np.uint8]) -> None:
    """Copy bytes, keeping the interpreter lock for small copies.

    A thread that gets the lock for 5 us has to be woken, and then wakes the waiting thread, which
    costs more than the copy.
    """
    if data_N.nbytes <= _MOVED_AT_ONCE:
        out_N.data[:] = data_N.data
    else:
        np.copyto(out_N, data_N)


def to_numpy(array: Array) -> Array:
    """Return the array, which is already a NumPy array."""
    return array


def digests(arrays: Sequence[Array]) -> Digests:
    """Return the digest of each array, uint64, shape (T,); see `digest`."""
    return np.array([digest(array) for array in arrays], np.uint64)


def row_digests(array: Array, columns: int = COLUMNS) -> Digests:
    """Return a 64-bit digest for every row, equal for bit-identical rows of any library.

    Args:
        array: array of any real type, shape (rows, ...).
        columns: maximum number of elements of a row that are read, evenly spread.

    Returns:
        uint64, shape (rows,). Two rows that differ in the elements read get different numbers,
        except for one pair in 2^63.
    """
    return digest_bits(row_bits(array, columns))


def digest(array: Array) -> int:
    """Return the xxh3_64 of the elements in C order, seeded by type and shape."""
    name = name_of(array.dtype)
    data = np.ascontiguousarray(array, array.dtype if _is_plain(array.dtype) else dtype_of(name))
    return digest_bytes(data.reshape(-1).view(np.uint8), name, array.shape)


def _real(array: Array) -> Array:
    if np.iscomplexobj(array):
        flat = np.ascontiguousarray(array).reshape(-1)
        return flat.view(flat.real.dtype)
    return array
