"""Overlaps of prediction and target that a loss adds instead of subtracting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.loss_terms import OverlapAdded, OverlapBroadcast

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor], Tensor]


def added(loss_of: Loss) -> list[int]:
    """Return in how many of the inspected steps a loss of probabilities and masks adds overlaps."""
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sigmoid())
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(13):
            optimizer.zero_grad()
            masks = torch.randint(0, 2, (3, 2, 4, 4)).float()
            loss_of(model(torch.rand(3, 1, 4, 4)), masks).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one.added for one in seen.observed(OverlapAdded)]


def dice(p: Tensor, y: Tensor) -> Tensor:
    both = (p * y).sum(dim=2).sum(dim=2)
    return ((2.0 * both + 1) / (p.sum(dim=(2, 3)) + y.sum(dim=(2, 3)) + 1)).mean()


def jaccard(p: Tensor, y: Tensor) -> Tensor:
    both = (p.flatten() * y.flatten()).sum()
    return both / (p.sum() + y.sum() - both)


def squared(p: Tensor, y: Tensor) -> Tensor:
    return 2 * (p * y).sum() / ((p * p).sum() + (y * y).sum())


@pytest.mark.parametrize("overlap", [dice, jaccard, squared])
def test_overlaps_that_are_added(overlap: Loss) -> None:
    assert added(overlap) == [5]
    assert added(
        lambda p, y: 0.5 * functional.binary_cross_entropy(p, y) + 0.5 * overlap(p, y)
    ) == [5]


@pytest.mark.parametrize("overlap", [dice, jaccard, squared])
def test_overlaps_that_are_subtracted(overlap: Loss) -> None:
    assert added(lambda p, y: 1 - overlap(p, y)) == []
    assert added(lambda p, y: -overlap(p, y)) == []
    assert added(lambda p, y: -1 * overlap(p, y)) == []
    assert added(lambda p, y: -overlap(p, y).log()) == []
    assert added(lambda p, y: (1 - overlap(p, y)) * 0.5 + functional.mse_loss(p, y)) == []


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda p, y: (p * y).sum() / y.sum(),  # a weighted mean
        lambda p, y: (p * y).sum() / (p.norm() * y.norm()),  # a cosine
        lambda p, y: ((p - y) ** 2).sum() / (p.sum() + y.sum()),
        lambda p, y: (p * y).sum() / 3,
        lambda p, y: (p * (1 - y)).sum() / (p.sum() + 1e-6),  # predicted outside the target
        lambda p, y: ((p * (1 - y)).sum() + 1) / (2 * p.sum() + 1),
    ],
)
def test_other_quotients(loss_of: Loss) -> None:
    assert added(loss_of) == []


def broadcast(loss_of: Loss, *, channels: int = 3) -> list[tuple[int, tuple[int, ...]]]:
    """Return the looks at broadcast overlaps of one channel with a mask, and its shape."""
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Sigmoid())
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(13):
            optimizer.zero_grad()
            masks = torch.randint(0, 2, (3, 1, 4, 4)).float().repeat(1, channels, 1, 1)
            loss_of(model(torch.rand(3, 1, 4, 4)), masks).backward()
            optimizer.step()
        assert seen.failed() == []
        return [(one.found, one.target_shape) for one in seen.observed(OverlapBroadcast)]


def by_counts(p: Tensor, y: Tensor) -> Tensor:
    hit = torch.sum(y * p)
    return (2 * hit + 1e-7) / (2 * hit + torch.sum(y) - hit + torch.sum(p) - hit + 1e-7)


@pytest.mark.parametrize("overlap", [dice, by_counts, squared])
def test_masks_with_more_channels_than_the_prediction(overlap: Loss) -> None:
    assert broadcast(lambda p, y: 1 - overlap(p, y)) == [(5, (3, 3, 4, 4))]
    assert broadcast(lambda p, y: 1 - overlap(p, y), channels=1) == []


def test_a_weighted_mean_broadcasts_its_weights() -> None:
    def loss_of(p: Tensor, y: Tensor) -> Tensor:
        values = torch.rand_like(y)
        mean = (p * values).sum((2, 3)) / (p.sum((2, 3)) + 1e-6)
        return ((mean - 0.5) ** 2).mean()

    assert broadcast(loss_of) == []
