"""Browsers and other readers can read the images that are written."""

from __future__ import annotations

import io

import numpy as np
import pytest

from mothtrap.core import png

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_file_holds_the_pixels(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png.encode(pixels))))
    assert np.array_equal(read.reshape(pixels.shape), pixels)


def test_arrays_of_every_layout_and_range_are_images() -> None:
    assert png.pixels(np.zeros((3, 4, 5))).shape == (4, 5, 3)
    assert png.pixels(np.array([[0.0, 0.5, 1.0]])).reshape(-1).tolist() == [0, 128, 255]
    assert png.pixels(np.array([[-1.0, 3.0, np.nan]])).reshape(-1).tolist() == [0, 255, 64]
    assert png.pixels(np.array([[-5, 300]])).reshape(-1).tolist() == [0, 255]
    assert png.pixels(np.array([[True, False]])).reshape(-1).tolist() == [255, 0]
    with pytest.raises(ValueError, match=r"not \(2, 3, 4, 5\)"):
        png.pixels(np.zeros((2, 3, 4, 5)))
