"""Columns of numbers in Arrow's memory, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES = {
    pa.from_numpy_dtype(name): np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
"""NumPy types of Arrow types; Arrow's own `to_pandas_dtype` needs pandas before pyarrow 26."""


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as a read-only array, shape (N,).

    Equivalent to `column.to_numpy()`, which would import pandas if installed (0.2 s).

    Raises:
        TypeError: the column contains other data.
    """
    dtype = _TYPES.get(column.type)
    if column.null_count or dtype is None:
        raise TypeError(f"a column of {column.type} contains more than numbers")
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.frombuffer(b"", dtype)
    found = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    found.flags.writeable = False
    return found


def vectors(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of lists of F numbers each as a read-only array, shape (N, F).

    Equivalent to `numbers(column.flatten())`, which would import all Arrow functions (40 ms).

    Raises:
        TypeError: the column contains other data.
    """
    if column.null_count or not pa.types.is_fixed_size_list(column.type):
        raise TypeError(f"a column of {column.type} contains more than lists of numbers")
    width = column.type.list_size
    # `values` belong to the whole batch, of which this may be a part.
    flat = column.values.slice(column.offset * width, len(column) * width)
    return numbers(flat).reshape(len(column), width)


def slices(column: pa.Array, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[bytes]:
    """Return some of the texts of a column, encoded.

    Raises:
        TypeError: the column contains other data.
    """
    offset_N, data = texts_of(column)
    rows = np.asarray(rows, np.int64)
    starts, stops = offset_N[rows].tolist(), offset_N[rows + 1].tolist()
    return [data[start:stop] for start, stop in zip(starts, stops, strict=True)]


def where_equal(column: pa.Array, word: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a text column that equal a word, shape (N,).

    Equivalent to Arrow's own comparison, whose import takes 40 ms.

    Raises:
        TypeError: the column contains other data.
    """
    offset_N, data = texts_of(column)
    encoded = word.encode()
    equal_N: npt.NDArray[np.bool_] = np.diff(offset_N) == len(encoded)
    byte_B = np.frombuffer(data, np.uint8)
    rows = np.flatnonzero(equal_N)
    start_N = offset_N[rows]
    for place, byte in enumerate(encoded):
        kept = byte_B[start_N + place] == byte
        rows, start_N = rows[kept], start_N[kept]
    equal_N[:] = False
    equal_N[rows] = True
    return equal_N


def texts_of(column: pa.Array) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return the offsets of the texts, including the end of the last text, and the texts."""
    if column.null_count or not pa.types.is_string(column.type):
        raise TypeError(f"a column of {column.type} contains more than strings")
    _, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return np.zeros(1, np.int64), b""
    offset_N = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    first, last = int(offset_N[0]), int(offset_N[-1])
    texts = b"" if data is None else memoryview(data)[first:last].tobytes()
    return offset_N.astype(np.int64) - first, texts
