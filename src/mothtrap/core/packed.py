"""Integers encoded as short texts: a few bytes each, almost none for consecutive numbers."""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import DamagedDataError

Ints = npt.NDArray[np.int64]

_STRETCH = "r"
_CODES = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32))
_WIDTHS = {"B": "<u1", "H": "<u2", "I": "<u4", "q": "<i8"}
MAX_COUNT = 1 << 24
"""Maximum count accepted when decoding: a range of consecutive numbers could claim any count."""


def pack(values: Sequence[int]) -> str:
    """Encode signed 64-bit integers as text.

    The text is `r<first>,<count>` for consecutive numbers such as 32, 33, 34; otherwise a letter
    for the width (`B`, `H`, `I` unsigned, `q` signed) and the little-endian bytes in base64. Empty
    for no numbers.

    Raises:
        OverflowError: a number has more than 64 bits.
    """
    if not values:
        return ""
    first, count = values[0], len(values)
    if count > 1 and values[-1] - first == count - 1 and list(values) == _stretch(first, count):
        return f"{_STRETCH}{first},{count}"
    smallest, largest = min(values), max(values)
    code = next((c for c, limit in _CODES if smallest >= 0 and largest < limit), "q")
    packed = array(code, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return code + base64.b64encode(packed.tobytes()).decode("ascii")


def unpack(text: str) -> Ints:
    """Decode the numbers from `pack`, shape (count,).

    Raises:
        DamagedDataError: the text was not written by `pack`.
    """
    try:
        return _unpack(text)
    except (ValueError, KeyError, binascii.Error) as err:
        raise DamagedDataError(
            f"numbers cannot be read: {text[:40]!r} is not in mothtrap's format ({err}); "
            "the rest of the run can still be read"
        ) from err


def _unpack(text: str) -> Ints:
    if not text:
        return np.empty(0, np.int64)
    if text[0] == _STRETCH:
        first, count = (int(part) for part in text[1:].split(","))
        if not 0 <= count <= MAX_COUNT:
            raise ValueError(f"{count} numbers")
        return np.arange(first, first + count, dtype=np.int64)
    data = base64.b64decode(text[1:], validate=True)
    return np.frombuffer(data, _WIDTHS[text[0]]).astype(np.int64)


def _stretch(first: int, count: int) -> list[int]:
    return list(range(first, first + count))
