"""Pictures of captured values: images, filters of convolutions, feature maps, heads of attention.

Shape suffixes: N = tiles, H = height, W = width, C = channels.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import ConfigError
from mothtrap.web.png import Pixels, montage, png, pooled

PictureName = Literal["images", "filters", "maps", "attention"]
Array = npt.NDArray[Any]

MOST_TILES = 64
MOST_TILE_PIXELS = 256
MOST_FILTER = 15
"""Height and width of filters; chosen by hand: more is an image."""
LEAST_IMAGE = 4
SUM_ERROR = 1e-2
"""By how much a row of attention may differ from 1, as in 16 bits; chosen by hand."""
MOST_HEAD = 128
LEAST_TILE = 48
"""Pixels of the side of a head, and of other tiles, which are enlarged by whole numbers."""
BLUE, GRAY, ORANGE = (22, 93, 177), (238, 236, 230), (178, 76, 2)
CIVIDIS = np.array([[0, 34, 78], [59, 77, 107], [124, 123, 120], [185, 172, 112], [254, 232, 56]])
BAD = (214, 30, 190)


def pictures_of(kind: str, values: Array) -> list[PictureName]:
    """Return the image types in which values can be shown, most likely first."""
    found: list[PictureName] = []
    if values.ndim == 4 and kind in ("weight", "gradient", "update"):
        if max(values.shape[2:]) <= MOST_FILTER and max(values.shape[2:]) > 1:
            found.append("filters")
        return found
    if values.ndim in (3, 4) and is_attention(values):
        found.append("attention")
    elif _channels_axis(values) is not None:
        found.append("images")
    elif _is_maps(values):
        found.append("maps")
    return found


def is_attention(values: Array) -> bool:
    """Return whether rows of values are shares: nonnegative, with a sum of 1."""
    if values.ndim < 3 or values.dtype.kind != "f" or values.shape[-1] < 2 or values.size == 0:
        return False
    some = np.asarray(values.reshape(-1, values.shape[-1])[:4096], np.float64)
    return bool(np.all(some >= 0) and np.all(np.abs(some.sum(axis=-1) - 1) < SUM_ERROR))


def picture(name: str, values: Array, sample: int = 0) -> bytes:
    """Render values as a PNG file.

    Args:
        name: name of `pictures_of`.
        values: captured values.
        sample: sample of maps and attention: index in the batch.

    Raises:
        ConfigError: the values are no such picture.
    """
    if name == "images" and _channels_axis(values) is not None:
        return png(montage(_images(values), columns=8))
    if name == "filters" and values.ndim == 4:
        return png(montage(*_filters(values)))
    one = values[min(max(sample, 0), len(values) - 1)] if values.ndim == 4 else values
    if name == "maps" and _is_maps(values):
        return png(montage(_maps(one), columns=8, gap=4))
    if name == "attention" and values.ndim in (3, 4):
        tiles = np.stack([cividis(pooled(head, MOST_HEAD)) for head in one[:MOST_TILES]])
        return png(montage(_enlarged(tiles, MOST_HEAD), columns=4, gap=6))
    shape = "x".join(map(str, values.shape))
    raise ConfigError(f"values of shape {shape} cannot be shown as {name[:40]}")


def cividis(share: Array) -> Pixels:
    """Return colors of shares from 0 to 1, shape of `share` and 3."""
    at = np.clip(np.nan_to_num(np.asarray(share, np.float64)), 0, 1) * (len(CIVIDIS) - 1)
    low = np.minimum(at.astype(int), len(CIVIDIS) - 2)
    mixed = CIVIDIS[low] + (CIVIDIS[low + 1] - CIVIDIS[low]) * (at - low)[..., None]
    return _marked(mixed, share)


def signed(value: Array, limit: float) -> Pixels:
    """Return colors, blue below 0 and orange above, shape of `value` and 3, up to `limit`."""
    share = np.clip(np.nan_to_num(np.asarray(value, np.float64)) / (limit or 1.0), -1, 1)[..., None]
    middle = np.array(GRAY, np.float64)
    ends = np.where(share < 0, np.array(BLUE), np.array(ORANGE))
    return _marked(middle + (ends - middle) * np.abs(share), value)


def _marked(color: Array, value: Array) -> Pixels:
    """Mark non-finite values."""
    found = np.rint(color).astype(np.uint8)
    found[~np.isfinite(np.asarray(value, np.float64))] = BAD
    return found


def _channels_axis(values: Array) -> int | None:
    """The channel axis of a batch of images; None = no images."""
    if values.ndim != 4 or 0 in values.shape:
        return None
    for axis, sides in ((1, values.shape[2:]), (3, values.shape[1:3])):
        if values.shape[axis] in (1, 3, 4) and min(sides) >= LEAST_IMAGE:
            return axis
    return None


def _images(values: Array) -> Pixels:
    axis = _channels_axis(values)
    image_NHWC = np.asarray(values[:MOST_TILES], np.float64)
    image_NHWC = np.moveaxis(image_NHWC, 1, 3) if axis == 1 else image_NHWC
    block = -(-max(image_NHWC.shape[1:3]) // MOST_TILE_PIXELS)
    image_NHWC = image_NHWC[:, ::block, ::block]
    finite = image_NHWC[np.isfinite(image_NHWC)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    share = (np.nan_to_num(image_NHWC) - low) / ((high - low) or 1.0)
    pixels = np.rint(255 * np.clip(share, 0, 1)).astype(np.uint8)
    if pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    pixels[~np.isfinite(image_NHWC).all(axis=-1), :3] = BAD
    return _enlarged(pixels)


def _is_maps(values: Array) -> bool:
    """Return whether values are planes of channels, of each sample of a batch."""
    return values.ndim == 4 and values.size > 0 and sorted(values.shape[1:])[1] >= LEAST_IMAGE


def _maps(channel: Array) -> Pixels:
    """Return the planes of a sample; where the first two sides are equal, channels are last."""
    channels_last = channel.shape[0] == channel.shape[1] != channel.shape[2]
    some = np.moveaxis(channel, -1, 0) if channels_last else channel
    plane = np.stack([pooled(each, MOST_HEAD) for each in some[:MOST_TILES]])
    finite = np.abs(plane[np.isfinite(plane)])
    pixels = signed(plane, float(finite.max()) if len(finite) else 1.0)
    return _enlarged(pixels, 2 * LEAST_TILE if len(plane) <= 16 else LEAST_TILE)


def _filters(values: Array) -> tuple[Pixels, int]:
    """Tiles of filters, and how many are in a row: a row is an output; RGB filters are one tile."""
    inputs = values.shape[1]
    some = np.asarray(values, np.float64)
    finite = some[np.isfinite(some)]
    limit = float(np.abs(finite).max()) if len(finite) else 1.0
    if inputs == 3:
        tiles = np.moveaxis(some[:MOST_TILES], 1, 3)
        pixels = np.rint(127.5 * (1 + np.clip(np.nan_to_num(tiles) / (limit or 1.0), -1, 1)))
        return _enlarged(pixels.astype(np.uint8), 32), 8
    shown = min(inputs, 8)
    chosen = some[: MOST_TILES // shown, :shown]
    flat = chosen.reshape(-1, *chosen.shape[2:])
    return _enlarged(signed(flat, limit), 24), 8 if shown == 1 else shown


def _enlarged(tile_NHWC: Pixels, least: int = LEAST_TILE) -> Pixels:
    factor = max(1, -(-least // max(tile_NHWC.shape[1:3])))
    found: Pixels = tile_NHWC.repeat(factor, axis=1).repeat(factor, axis=2)
    return found
