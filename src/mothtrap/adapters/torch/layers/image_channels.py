"""The layout of the channels of images, which a wrong reshape mixes with their pixels."""

from __future__ import annotations

import torch

CHANNELS = 3
LEAST_SIDE = 12
"""Smallest height and width of images that are inspected; chosen by hand: small ones have edges
everywhere."""
MOST_IMAGES = 16
"""Maximum number of images of a batch that are inspected."""


def differences(images: torch.Tensor) -> tuple[float, float] | None:
    """Return the differences of values from the next value, and from the third value after them.

    In images of shape (rows, channels, height, width), the next value is a neighbor, so it is more
    similar. If pixels of three channels were reshaped instead of permuted, the third value after a
    value is its neighbor.

    Returns:
        Mean absolute differences: the smaller one of the next two values, and the one of the third
        value; None for data that are no color images.
    """
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != CHANNELS or min(shape[2:]) < LEAST_SIDE:
        return None
    with torch.no_grad():
        values = images.detach()[:MOST_IMAGES].float().reshape(min(shape[0], MOST_IMAGES), -1)
        means = [(values[:, lag:] - values[:, :-lag]).abs().mean() for lag in (1, 2, CHANNELS)]
        first, second, third = torch.stack(means).tolist()
    return min(first, second), third
