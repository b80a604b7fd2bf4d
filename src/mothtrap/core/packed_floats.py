"""Numbers of many steps in one short text, for facts that cover a range of steps.

Shape suffix: N = numbers.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_TYPES: dict[str, np.dtype[Any]] = {"f": np.dtype("<f4"), "d": np.dtype("<f8")}
_EQUAL = "e"
"""Prefix of a text with one float64 to which all numbers are equal."""
_COMPRESSED = {"F": ("f", 0), "D": ("d", 0), "T": ("d", 3)}
"""Type of compressed numbers, and the order of the differences of their bits. A learning rate
follows a smooth curve: its third differences are small integers.
"""
FEWEST = 64
"""Fewer numbers than this are not compressed, because it would save little; chosen by hand."""


def packed(values: Sequence[float]) -> str:
    """Encode numbers exactly as text: a letter for the form, and bytes in base64.

    Numbers that float32 represents exactly take at most 4 bytes each before base64. Equal numbers
    are stored once. Many numbers are compressed.
    """
    value_N = np.array(values, np.float64)
    if not len(value_N):
        return ""
    if np.array_equal(value_N, np.full(len(value_N), value_N[0]), equal_nan=True):
        return _EQUAL + _text(value_N[:1].astype("<f8").tobytes())
    with np.errstate(over="ignore"):
        short_N = value_N.astype("<f4")
    letter = "f" if np.array_equal(short_N.astype(np.float64), value_N, equal_nan=True) else "d"
    plain = letter + _text(value_N.astype(_TYPES[letter]).tobytes())
    if len(value_N) < FEWEST:
        return plain
    forms = [form for form, (kind, _) in _COMPRESSED.items() if kind == letter]
    return min(plain, *(form + _text(_compressed(value_N, form)) for form in forms), key=len)


def unpacked(text: str, count: int) -> Floats:
    """Decode the numbers from `packed`, shape (N,); NaN if the text is damaged.

    Args:
        text: output of `packed`, or empty.
        count: N.
    """
    nothing_N = np.full(max(0, count), np.nan)
    form = text[:1]
    try:
        data = base64.b64decode(text[1:], validate=True)
        if form in _COMPRESSED:
            return _decompressed(data, form, count)
    except (binascii.Error, ValueError, zlib.error):
        return nothing_N
    kind = _TYPES.get(form, _TYPES["d"])
    if len(data) % kind.itemsize:
        return nothing_N
    value_N = np.frombuffer(data, kind).astype(np.float64)
    if form == _EQUAL and len(value_N) == 1:
        return np.full(max(0, count), value_N[0])
    return value_N if len(value_N) == count and form in _TYPES else nothing_N


def _compressed(value_N: Floats, form: str) -> bytes:
    """Compress numbers; bytes of the same significance are adjacent, since they are similar."""
    letter, differences = _COMPRESSED[form]
    kind = _TYPES[letter]
    bits_N = value_N.astype(kind).view(f"<u{kind.itemsize}")
    for _ in range(differences):
        bits_N = np.diff(bits_N, prepend=bits_N.dtype.type(0))  # wraps around, like cumsum
    if differences:  # small numbers of either sign begin with bytes of 0
        signed_N = bits_N.view("<i8")
        bits_N = ((signed_N << 1) ^ (signed_N >> 63)).view("<u8")
    return zlib.compress(bits_N.view(np.uint8).reshape(-1, kind.itemsize).T.tobytes())


def _decompressed(data: bytes, form: str, count: int) -> Floats:
    """Invert `_compressed`.

    Raises:
        ValueError: the data does not have `count` numbers.
    """
    letter, differences = _COMPRESSED[form]
    kind = _TYPES[letter]
    size = max(0, count) * kind.itemsize
    stream = zlib.decompressobj()
    plain = stream.decompress(data, size + 1)
    if len(plain) != size or not stream.eof:
        raise ValueError(f"{len(plain)} bytes instead of {size}")
    byte_N = np.frombuffer(plain, np.uint8).reshape(kind.itemsize, -1)
    bits_N = np.ascontiguousarray(byte_N.T).view(f"<u{kind.itemsize}")[:, 0]
    if differences:
        bits_N = (bits_N >> np.uint64(1)) ^ (np.uint64(0) - (bits_N & np.uint64(1)))
    for _ in range(differences):
        bits_N = np.cumsum(bits_N, dtype=bits_N.dtype)
    return bits_N.view(kind).astype(np.float64)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
