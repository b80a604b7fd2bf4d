from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.modules import ZeroSlope

Tensor = torch.Tensor


class Net(nn.Module):
    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.between = between
        self.encoder = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.between(self.encoder(x)))
        return found


def observed(net: nn.Module) -> list[ZeroSlope]:
    torch.manual_seed(0)
    optimizer = sgd(net)
    with watched() as seen:
        for _ in range(12):
            optimizer.zero_grad()
            functional.cross_entropy(net(torch.randn(6, 4)), torch.arange(6) % 2).backward()
            optimizer.step()
        assert seen.failed() == []
    return seen.observed(ZeroSlope)


@pytest.mark.parametrize("name", ["sign", "round", "floor", "ceil", "trunc"])
def test_layers_behind_a_flat_operation(name: str) -> None:
    [fact] = observed(Net(getattr(torch, name)))
    assert (fact.found, fact.operation, fact.layers) == (5, name, ("encoder",))
    assert (fact.parameters, fact.of) == (15, 23)


@pytest.mark.parametrize(
    "between",
    [
        torch.tanh,
        lambda h: h + (torch.sign(h) - h).detach(),
        lambda h: torch.sign(h) * h,
        lambda h: torch.sign(h.detach()) + h,
    ],
    ids=["tanh", "straight through", "absolute value", "detached"],
)
def test_other_ways_to_the_loss(between: Callable[[Tensor], Tensor]) -> None:
    assert observed(Net(between)) == []
