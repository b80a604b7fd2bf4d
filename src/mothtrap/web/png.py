"""PNG files from pixels, encoded here, so that no file of a run is served as a picture."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _RGB, _RGBA = 0, 2, 6
_COLORS = {1: _GRAY, 3: _RGB, 4: _RGBA}


def png(pixels: Pixels) -> bytes:
    """Encode pixels as a PNG file.

    Args:
        pixels: shape (height, width, channels), 1 = gray, 3 = RGB, 4 = with opacity.
    """
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # the first byte: no filter
    lines[:, 1:] = pixels.reshape(height, -1)
    data = zlib.compress(lines.tobytes(), 6)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def montage(tile_NHWC: Pixels, columns: int, gap: int = 2) -> Pixels:
    """Arrange images of equal size in a grid with transparent gaps.

    Args:
        tile_NHWC: shape (pictures, height, width, channels of 3 or 4).
        columns: number of pictures per row.
        gap: pixels between them.
    """
    count, height, width, channels = tile_NHWC.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    shape = (rows * (height + gap) - gap, columns * (width + gap) - gap, 4)
    whole = np.zeros(shape, np.uint8)
    for place in range(count):
        y, x = (height + gap) * (place // columns), (width + gap) * (place % columns)
        whole[y : y + height, x : x + width, :channels] = tile_NHWC[place]
        if channels < 4:
            whole[y : y + height, x : x + width, 3] = 255
    return whole


def pooled(value_YX: npt.NDArray[Any], most: int, how: str = "max") -> npt.NDArray[Any]:
    """Downsample a matrix to at most `most` rows and columns.

    Args:
        value_YX: any real type.
        most: limit of either axis.
        how: `max` = the value farthest from 0, or non-finite; or `mean`.
    """
    found = value_YX.astype(np.float64)
    for axis in (0, 1):
        block = -(-found.shape[axis] // most)
        if block < 2:
            continue
        start = np.arange(0, found.shape[axis], block)
        with np.errstate(invalid="ignore", over="ignore"):
            if how == "mean":
                count = np.diff([*start, found.shape[axis]])
                total = np.add.reduceat(found, start, axis=axis)
                found = total / (count[:, None] if axis == 0 else count[None, :])
            else:
                high, low = (f.reduceat(found, start, axis=axis) for f in (np.maximum, np.minimum))
                found = np.where(high >= -low, high, low)
                found = np.where(np.isnan(high), np.nan, found)
    return found
