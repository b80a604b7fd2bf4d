from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.pairs import DistancesAsScores

Tensor = torch.Tensor
LABELS = torch.arange(6) % 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 4)
        self.centers = nn.Parameter(torch.randn(3, 4))
        self.scale = nn.Parameter(torch.zeros(()))
        self.last = nn.Linear(3, 3)

    def distances(self) -> Tensor:
        return torch.cdist(self.net(torch.randn(6, 5)), self.centers)

    def differences(self) -> Tensor:
        return self.net(torch.randn(6, 5))[:, None] - self.centers


def observed(scores_of: Callable[[Net], Tensor]) -> list[tuple[int, int]]:
    torch.manual_seed(0)
    net = Net()
    optimizer = sgd(net)
    with watched() as seen:
        for _ in range(12):
            optimizer.zero_grad()
            functional.cross_entropy(scores_of(net), LABELS).backward()
            optimizer.step()
        assert seen.failed() == []
    return [(one.found, one.choices) for one in seen.observed(DistancesAsScores)]


@pytest.mark.parametrize(
    "scores_of",
    [
        lambda net: net.distances(),
        lambda net: net.distances() / 0.1,
        lambda net: net.distances() * net.scale.exp(),
        lambda net: net.differences().norm(dim=-1),
        lambda net: net.differences().pow(2).sum(-1),
        lambda net: torch.cat([net.distances()[:, :1], net.distances()[:, 1:]], dim=1),
    ],
    ids=["cdist", "temperature", "trained scale", "norm", "squares", "joined"],
)
def test_distances_with_a_plus_sign(scores_of: Callable[[Net], Tensor]) -> None:
    assert observed(scores_of) == [(5, 3)]


@pytest.mark.parametrize(
    "scores_of",
    [
        lambda net: -net.distances(),
        lambda net: -10 * net.distances(),
        lambda net: net.distances() * net.scale,
        lambda net: net.last(net.distances()),
        lambda net: 1 / (1 + net.distances()),
        lambda net: net.net(torch.randn(6, 5)) @ net.centers.T,
        lambda net: torch.cat([net.distances()[:, :1], -net.distances()[:, 1:]], dim=1),
    ],
    ids=["negative", "factor", "any factor", "layer", "inverse", "products", "mixed"],
)
def test_other_scores(scores_of: Callable[[Net], Tensor]) -> None:
    assert observed(scores_of) == []
