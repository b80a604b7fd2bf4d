from __future__ import annotations

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.optimizers import UnownedParameter

Tensor = torch.Tensor


class Net(nn.Module):
    """A net whose last layer is created in `__init__`, in the first forward, or in each one."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.first = nn.Linear(4, 3)
        self.last = nn.Linear(3, 2) if when == "once" else None

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        if self.when == "each":
            layer = nn.Linear(3, 2)
            found: Tensor = layer(h)
            return found
        if self.last is None:
            self.last = nn.Linear(3, 2)
        shown: Tensor = self.last(nn.Dropout(0.1)(h))
        return shown


def observed(net: nn.Module, *, new_optimizer: bool = False) -> list[UnownedParameter]:
    optimizer = sgd(net)
    with watched() as seen:
        for _ in range(24):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(torch.randn(6, 4)), torch.arange(6) % 2)
            if new_optimizer:
                added = nn.Linear(4, 2)
                torch.optim.SGD(added.parameters(), lr=0.1)
                optimizer.add_param_group({"params": added.parameters()})
                loss = loss + added(torch.randn(6, 4)).square().mean()
            loss.backward()
            optimizer.step()
        assert seen.failed() == []
    return [one for one in seen.observed(UnownedParameter) if one.made_anew]


def test_a_layer_that_each_forward_creates() -> None:
    [fact] = observed(Net("each"))
    assert (fact.name, fact.shape, fact.made_anew) == ("Linear.weight", (2, 3), 20)
    assert "test_remade_parameters.py" in (fact.location or "")


def test_layers_that_stay() -> None:
    assert observed(Net("once")) == []
    assert observed(Net("first")) == []


def test_new_layers_that_are_trained() -> None:
    assert observed(Net("once"), new_optimizer=True) == []
