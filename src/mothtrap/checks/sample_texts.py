"""Samples as a person can see them: characters in a terminal, or a PNG file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mothtrap.checks.subject import Array
from mothtrap.core import png

RAMP = " .:-=+*#%@"
"""Characters from the darkest to the brightest."""
SIDE = 32
"""Most characters of a side of a picture in the terminal, two per pixel; chosen by hand."""
PIXELS = 128
"""Most pixels of a side of a stored picture; chosen by hand."""
LEAST_SQUARE = 64
"""Columns from which a square number of them is shown as a picture; chosen by hand."""
MAX_VALUES = 60
"""Values of a sample that are listed; chosen by hand."""


def picture_of(parts: Sequence[Array]) -> Array | None:
    """Return a sample as an image, uint8 of shape (height, width, 1 to 4); None for other samples.

    A row of 64 or more numbers is an image if their count is a square number.

    Args:
        parts: Inputs of the sample.
    """
    if len(parts) != 1 or parts[0].dtype.kind not in "buif":
        return None
    values = parts[0]
    side = math.isqrt(values.size)
    if values.ndim == 1 and values.size >= LEAST_SQUARE and side * side == values.size:
        values = values.reshape(side, side)
    if values.ndim not in (2, 3) or min(values.shape[-2:]) < 2:
        return None
    try:
        return _small(png.pixels(_from_zero(values)), PIXELS)
    except ValueError:
        return None


def _from_zero(values: Array) -> Array:
    """Scale integers of a small range to 0..1; their picture would be nearly black."""
    if values.dtype.kind in "iu" and values.size and values.max() <= 31:
        return values / max(1, int(values.max()))
    return values


def _small(image: Array, most: int) -> Array:
    """Return an image of at most `most` pixels a side, by leaving out pixels."""
    step = math.ceil(max(image.shape[:2]) / most)
    return np.ascontiguousarray(image[::step, ::step])


def in_characters(image: Array) -> str:
    """Return lines of text that draw an image, uint8 of shape (height, width, channels)."""
    small = _small(image, SIDE)
    colors = small[:, :, :3] if small.shape[2] > 2 else small[:, :, :1]
    gray = colors.mean(axis=2)
    levels = (gray / 255 * (len(RAMP) - 1) + 0.5).astype(int)
    return "\n".join("".join(2 * RAMP[level] for level in row).rstrip() for row in levels)


def in_words(parts: Sequence[Array]) -> str:
    """Return lines that list the values of a sample.

    Args:
        parts: Inputs of the sample.
    """
    lines = []
    for number, part in enumerate(parts):
        name = "input" if len(parts) == 1 else f"input {number}"
        flat = part.reshape(-1)
        shown = [_value(one) for one in flat[:MAX_VALUES]]
        more = f", ... ({flat.size:,} values)" if flat.size > MAX_VALUES else ""
        lines.append(f"{name}: {', '.join(shown)}{more}")
    return "\n".join(lines)


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
