"""Framework-independent names of element types, and their NumPy types."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import UnknownNameError, nearest

NATIVE = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
"""Types of NumPy itself."""

EXTENDED = (
    "bfloat16",
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
"""Types that ml_dtypes adds to NumPy."""

NAMES = (*NATIVE, *EXTENDED)

HALF_COMPLEX = "complex32"
"""Pairs of float16: a type of some frameworks that neither NumPy nor ml_dtypes has."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the little-endian NumPy type with a name.

    Raises:
        UnknownNameError: there is no such type; the message suggests one.
    """
    if name in NATIVE:
        return np.dtype(name).newbyteorder("<")
    if name in EXTENDED:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    raise UnknownNameError(f"there is no element type {name!r}{nearest(name, NAMES)}")


def array_of(
    data: bytes | bytearray | memoryview | npt.NDArray[np.uint8], name: str
) -> npt.NDArray[Any]:
    """Interpret bytes as an array, shape (N,); complex32 is converted to complex64.

    Raises:
        UnknownNameError: no type has this name.
    """
    if name == HALF_COMPLEX:
        return np.frombuffer(data, "<f2").astype(np.float32).view(np.complex64)
    return np.frombuffer(data, dtype_of(name))


def name_of(dtype: npt.DTypeLike) -> str:
    """Return the name of a NumPy type.

    Raises:
        UnknownNameError: arrays of this type (text, objects, records) are not tensors.
    """
    return _name(np.dtype(dtype))


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    if dtype.name not in NAMES:
        raise UnknownNameError(
            f"an array of type {dtype.name!r} is not a tensor: expected numbers or booleans"
        )
    return dtype.name
