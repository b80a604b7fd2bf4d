"""Columns of a batch, created from NumPy arrays and lists.

`pyarrow.array` is not used, because its first call imports pandas if installed, which would cost
the training process a second and much memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES = {
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.uint32): pa.uint32(),
    np.dtype(np.uint64): pa.uint64(),
    np.dtype(np.float64): pa.float64(),
}


def numbers(value_N: npt.NDArray[Any]) -> pa.Array:
    """Return a column of int32, int64, uint32, uint64 or float64 numbers, without a copy."""
    return nullable(value_N, None)


def nullable(value_N: npt.NDArray[Any], present_N: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return a column of numbers with nulls for missing values; None: no value is missing."""
    value_N = np.ascontiguousarray(value_N)
    there = None
    if present_N is not None and not present_N.all():
        there = pa.py_buffer(np.packbits(present_N, bitorder="little"))
    buffers = [there, pa.py_buffer(value_N)]
    return pa.Array.from_buffers(_TYPES[value_N.dtype], len(value_N), buffers)


def vectors(value_NF: npt.NDArray[np.float64]) -> pa.Array:
    """Return a column of lists of F numbers each, without a copy."""
    flat = numbers(value_NF.reshape(-1))
    kind = pa.list_(flat.type, value_NF.shape[1])
    return pa.Array.from_buffers(kind, len(value_NF), [None], children=[flat])


def texts(values: Sequence[str]) -> pa.Array:
    """Return a column of strings, which must be valid Unicode."""
    encoded = [value.encode() for value in values]
    buffers = [None, _offsets(map(len, encoded), len(encoded)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def repeated(value: str, rows: int) -> pa.Array:
    """Return a column with the same value in every row."""
    encoded = value.encode()
    offset_N = np.arange(rows + 1, dtype=np.int32) * len(encoded)
    buffers = [None, pa.py_buffer(offset_N), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def words(texts_W: Sequence[str], which_N: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return a dictionary-encoded column of texts; duplicates are allowed."""
    known = {word: place for place, word in enumerate(dict.fromkeys(texts_W))}
    place_W = np.array([known[word] for word in texts_W], np.int32)
    return pa.DictionaryArray.from_arrays(numbers(place_W[which_N]), texts(list(known)))


def lists(values: Sequence[Sequence[int]]) -> pa.Array:
    """Return a column of lists of int64 numbers."""
    flat = numbers(np.array([item for value in values for item in value], np.int64))
    buffers = [None, _offsets(map(len, values), len(values))]
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(values), buffers, children=[flat])


def _offsets(lengths: Iterable[int], count: int) -> pa.Buffer:
    offset_N = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=offset_N[1:])
    if offset_N[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"{offset_N[-1]} bytes of text are too much for one batch")
    return pa.py_buffer(offset_N.astype(np.int32))
