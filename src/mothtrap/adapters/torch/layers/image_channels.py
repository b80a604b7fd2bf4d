"""Differences between nearby values of images, which show a wrong reshape."""

from __future__ import annotations

import torch

CHANNELS = 3
LEAST_SIDE = 12
"""Smallest height and width of images that are inspected; chosen by hand: smaller images have edges
everywhere."""
MOST_IMAGES = 16
"""Maximum number of images of a batch that are inspected."""


def differences(images: torch.Tensor) -> tuple[float, float] | None:
    """Return how much a value differs from the next values, and from the third value after it.

    In images of shape (rows, channels, height, width), the next value belongs to the neighboring
    pixel, so it is the most similar. If images of shape (rows, height, width, channels) were
    reshaped instead of permuted, the third value after it belongs to the neighboring pixel.

    Returns:
        Mean absolute differences: from the first or second value after it (the smaller one), and
        from the third. None for data that are not color images.
    """
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != CHANNELS or min(shape[2:]) < LEAST_SIDE:
        return None
    with torch.no_grad():
        values = images.detach()[:MOST_IMAGES].float().reshape(min(shape[0], MOST_IMAGES), -1)
        means = [(values[:, lag:] - values[:, :-lag]).abs().mean() for lag in (1, 2, CHANNELS)]
        first, second, third = torch.stack(means).tolist()
    return min(first, second), third
