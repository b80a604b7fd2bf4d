"""Columns of numbers out of Arrow's memory, as they lie there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as an array, read-only, shape (N,).

    As `column.to_numpy()`, which would import pandas where that is installed (0.2 s).

    Raises:
        TypeError: the column holds something else.
    """
    if column.null_count or not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        raise TypeError(f"a column of {column.type} holds more than numbers")
    dtype = np.dtype(column.type.to_pandas_dtype())
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.frombuffer(b"", dtype)
    found = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    found.flags.writeable = False
    return found


def vectors(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of lists of F numbers each as an array, read-only, shape (N, F).

    As `numbers(column.flatten())`, which would import all functions of Arrow (40 ms).

    Raises:
        TypeError: the column holds something else.
    """
    if column.null_count or not pa.types.is_fixed_size_list(column.type):
        raise TypeError(f"a column of {column.type} holds more than lists of numbers")
    width = column.type.list_size
    # `values` are those of the whole batch, of which this may be a part.
    flat = column.values.slice(column.offset * width, len(column) * width)
    return numbers(flat).reshape(len(column), width)
