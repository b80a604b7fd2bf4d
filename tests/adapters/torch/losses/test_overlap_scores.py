from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.loss_terms import OverlapOfScores

Tensor = torch.Tensor


def observed(loss_of: Callable[[Tensor, Tensor], Tensor]) -> list[tuple[int, tuple[str, ...]]]:
    """Train a convolution on masks; return how often a wrong overlap was found."""
    torch.manual_seed(0)
    model = nn.Conv2d(1, 2, 3, padding=1)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(12):
            masks = (torch.rand(4, 2, 8, 8) > 0.5).float()
            optimizer.zero_grad()
            loss_of(model(torch.randn(4, 1, 8, 8)), masks).backward()
            optimizer.step()
        assert seen.failed() == []
    return [(one.found, one.twice) for one in seen.observed(OverlapOfScores)]


def dice(areas: Tensor, masks: Tensor) -> Tensor:
    areas, masks = areas.flatten(1), masks.flatten(1)
    common = (areas * masks).sum(1)
    return ((2 * common + 1) / (areas.sum(1) + masks.sum(1) + 1)).mean()


def per_class(scores: Tensor, masks: Tensor) -> Tensor:
    return 2 - dice(scores[:, 0], masks[:, 0]) - dice(scores[:, 1], masks[:, 1])


def resized(scores: Tensor, masks: Tensor) -> Tensor:
    larger = functional.interpolate(scores, scale_factor=2, mode="bilinear")
    return 1 - dice(larger, functional.interpolate(masks, scale_factor=2))


@pytest.mark.parametrize(
    "loss_of",
    [lambda scores, masks: 1 - dice(scores, masks), per_class, resized],
    ids=["flattened", "each class", "resized"],
)
def test_overlaps_of_raw_scores(loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert observed(loss_of) == [(5, ())]


def test_two_activations() -> None:
    found = observed(lambda scores, masks: 1 - dice(scores.softmax(1).sigmoid(), masks))
    assert found == [(5, ("sigmoid", "softmax"))]


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda scores, masks: 1 - dice(scores.sigmoid(), masks),
        lambda scores, masks: 1 - dice(scores.softmax(1), masks),
        lambda scores, masks: 1 - dice(scores.clamp(0, 1), masks),
        lambda scores, masks: functional.binary_cross_entropy_with_logits(scores, masks),
        lambda scores, masks: (scores * masks).sum() / masks.sum(),
    ],
    ids=["sigmoid", "softmax", "clamp", "binary", "mean over a mask"],
)
def test_other_losses(loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert observed(loss_of) == []
