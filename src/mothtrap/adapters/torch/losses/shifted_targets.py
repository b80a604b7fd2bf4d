"""Masks that fit the predictions of a loss better at another place.

Shape suffix: R = rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional

MAX_SIZE = 32
"""Height and width to which maps are averaged before they are shifted."""
FARTHEST = 4
"""Maps are shifted by at most a quarter of their size."""
LEAST_SHIFT = 2
"""Places of a map from which a shift counts; a blurred prediction may be off by one."""
BETTER = 0.1
"""Difference of correlations from which a shifted target fits better; chosen by hand."""


class Shifts(NamedTuple):
    """Numbers of compared and of shifted targets, and sums over the shifted ones.

    `distance` sums the lengths of the shifts as a share of the size of a map, `across` and `down`
    their parts.
    """

    rows: int
    shifted: int
    distance: float
    across: float
    down: float


def shifts_of(predicted: torch.Tensor, targets: torch.Tensor, *, fits: float) -> Shifts:
    """Find the shift at which each target fits its prediction best.

    Args:
        predicted: maps, shape (R, C, H, W).
        targets: the same shape.
        fits: correlation from which a target fits.
    """
    size = min(MAX_SIZE, predicted.shape[-2]), min(MAX_SIZE, predicted.shape[-1])
    one, other = (_unit(functional.adaptive_avg_pool2d(m, size)) for m in (predicted, targets))
    spectrum = torch.fft.rfft2(one) * torch.fft.rfft2(other).conj()
    correlation = torch.fft.irfft2(spectrum, s=size).sum(1)
    reach = size[0] // FARTHEST, size[1] // FARTHEST
    near = correlation.roll(reach, dims=(-2, -1))[:, : 2 * reach[0] + 1, : 2 * reach[1] + 1]
    best_R, place_R = near.flatten(1).max(1)
    down_R = place_R.div(near.shape[-1], rounding_mode="floor") - reach[0]
    across_R = place_R % near.shape[-1] - reach[1]
    counts_R = best_R >= fits
    is_far_R = torch.maximum(down_R.abs(), across_R.abs()) >= LEAST_SHIFT
    shifted_R = counts_R & is_far_R & (best_R >= correlation[:, 0, 0] + BETTER)
    shares = torch.stack([across_R / size[1], down_R / size[0]], 1)[shifted_R]
    across, down = shares.sum(0).tolist()
    distance = float(shares.norm(dim=1).sum())
    return Shifts(int(counts_R.sum()), int(shifted_R.sum()), distance, across, down)


def _unit(maps: torch.Tensor) -> torch.Tensor:
    """Return each row without its mean, with a norm of 1."""
    rows = maps.flatten(1) - maps.flatten(1).mean(1, keepdim=True)
    return functional.normalize(rows, dim=1).view(maps.shape)
