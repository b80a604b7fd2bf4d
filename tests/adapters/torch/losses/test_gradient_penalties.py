"""Norms of gradients in the losses of critics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.loss_terms import GradientPenalty

Tensor = torch.Tensor
CRITIC = (nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 1, 3), nn.Flatten(), nn.Linear(16, 1))
FLAT = (nn.Flatten(), nn.Linear(192, 8), nn.Tanh(), nn.Linear(8, 1))


def observed(
    penalty_of: Callable[[Tensor], Tensor], layers: tuple[nn.Module, ...] = CRITIC
) -> list[tuple[int, tuple[int, ...]]]:
    """Train a critic with a penalty; return how often it had several norms, and their shape."""
    critic = nn.Sequential(*layers)
    optimizer = sgd(critic)
    with watched() as seen:
        for _ in range(12):
            images = torch.randn(6, 3, 8, 8, requires_grad=True)
            scores = critic(images)
            [gradient] = torch.autograd.grad(scores.sum(), images, create_graph=True)
            optimizer.zero_grad()
            (scores.mean() + 10 * penalty_of(gradient)).backward()
            optimizer.step()
        assert seen.failed() == []
    return [(one.found, one.norms) for one in seen.observed(GradientPenalty)]


@pytest.mark.parametrize(
    ("penalty_of", "norms"),
    [
        (lambda g: ((g.norm(2, dim=1) - 1) ** 2).mean(), (6, 8, 8)),
        (lambda g: (g.norm(2, dim=1, keepdim=True) - 1).square().mean(), (6, 1, 8, 8)),
        (lambda g: (((g**2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean(), (6, 8, 8)),
        (lambda g: ((g.norm(2, dim=(1, 2)) - 1) ** 2).mean(), (6, 8)),
    ],
    ids=["channels", "kept axis", "by hand", "channels and rows"],
)
def test_several_norms_of_a_sample(
    penalty_of: Callable[[Tensor], Tensor], norms: tuple[int, ...]
) -> None:
    assert observed(penalty_of) == [(5, norms)]


@pytest.mark.parametrize(
    "penalty_of",
    [
        lambda g: ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean(),
        lambda g: ((g.norm(2, dim=(1, 2, 3)) - 1) ** 2).mean(),
        lambda g: ((g.square().sum((1, 2, 3)) + 1e-12).sqrt() - 1).square().mean(),
        lambda g: g.square().sum((1, 2, 3)).mean(),
        lambda g: g.norm(2, dim=1).square().mean(),
    ],
    ids=["flattened", "all axes", "by hand", "r1", "no constant"],
)
def test_other_penalties(penalty_of: Callable[[Tensor], Tensor]) -> None:
    assert observed(penalty_of) == []


def test_a_network_without_a_convolution_may_get_points() -> None:
    assert observed(lambda g: ((g.norm(2, dim=1) - 1) ** 2).mean(), FLAT) == []
