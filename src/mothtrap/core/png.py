"""Images as PNG files."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLORS = {1: 0, 2: 4, 3: 2, 4: 6}


def encode(image: npt.NDArray[np.uint8]) -> bytes:
    """Encode a uint8 image, shape (height, width, 1 to 4 channels), as PNG."""
    height, width, channels = image.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # 0: no filter
    rows[:, 1:] = image.reshape(height, width * channels)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 6)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    whole = kind + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


def pixels(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert values to a uint8 image, shape (height, width, channels).

    Integers are interpreted as 0 to 255. Other numbers are interpreted as 0 to 1, or scaled from
    their minimum to their maximum if they exceed that range. Values that are not finite become 0.
    Channels may come first, as in PyTorch.

    Args:
        values: shape (height, width), (height, width, 1 to 4) or (1 to 4, height, width).

    Raises:
        ValueError: the shape is not supported.
    """
    array = values[:, :, None] if values.ndim == 2 else values
    if array.ndim == 3 and array.shape[2] not in _COLORS and array.shape[0] in _COLORS:
        array = np.moveaxis(array, 0, 2)
    if array.ndim != 3 or array.shape[2] not in _COLORS or 0 in array.shape:
        raise ValueError(
            f"an image has the shape (height, width) or (height, width, 1 to 4), not {values.shape}"
        )
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array.astype(np.uint8) * 255)
    if array.dtype.kind in "iu":
        return np.ascontiguousarray(np.clip(array, 0, 255).astype(np.uint8))
    numbers = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0 or high > 1:
        numbers = (numbers - low) / (high - low) if high > low else numbers * 0
    return np.ascontiguousarray((numbers * 255 + 0.5).astype(np.uint8))
