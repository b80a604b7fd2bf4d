"""Numbers of many steps in one short text, for facts that cover a stretch of steps.

Shape suffix: N = numbers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_TYPES: dict[str, np.dtype[Any]] = {"f": np.dtype("<f4"), "d": np.dtype("<f8")}
_EQUAL = "e"
"""Precedes one float64 that stands for all numbers."""


def packed(values: Sequence[float]) -> str:
    """Encode numbers as text: a letter for their type, and their bytes in base64.

    Numbers that float32 holds exactly take 4 bytes. Equal numbers are stored once.
    """
    value_N = np.array(values, np.float64)
    if not len(value_N):
        return ""
    if np.array_equal(value_N, np.full(len(value_N), value_N[0]), equal_nan=True):
        return _EQUAL + _text(value_N[:1].astype("<f8"))
    with np.errstate(over="ignore"):
        short_N = value_N.astype("<f4")
    letter = "f" if np.array_equal(short_N.astype(np.float64), value_N, equal_nan=True) else "d"
    return letter + _text(value_N.astype(_TYPES[letter]))


def unpacked(text: str, count: int) -> Floats:
    """Decode the numbers from `packed`, shape (N,); NaN if the text is damaged.

    Args:
        text: output of `packed`, or empty.
        count: N.
    """
    nothing_N = np.full(max(0, count), np.nan)
    try:
        data = base64.b64decode(text[1:], validate=True)
    except (binascii.Error, ValueError):
        return nothing_N
    kind = _TYPES.get(text[:1], _TYPES["d"])
    if len(data) % kind.itemsize:
        return nothing_N
    value_N = np.frombuffer(data, kind).astype(np.float64)
    if text[:1] == _EQUAL and len(value_N) == 1:
        return np.full(max(0, count), value_N[0])
    return value_N if len(value_N) == count and text[:1] in _TYPES else nothing_N


def _text(value_N: npt.NDArray[np.generic]) -> str:
    return base64.b64encode(value_N.tobytes()).decode("ascii")
