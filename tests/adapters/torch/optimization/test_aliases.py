from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, watched
from torch import nn

from mothtrap.core.facts.modules import AliasedCopy

Copy = Callable[[nn.Module], nn.Module]


class Agent:
    def __init__(self, make: Copy) -> None:
        self.net = classifier()
        self.target_net = make(self.net)


def same(model: nn.Module) -> nn.Module:
    return model


def learn(agent: Agent, steps: int = 5) -> None:
    optimizer = sgd(agent.net)
    for _ in range(steps):
        with torch.no_grad():
            wanted = agent.target_net(torch.randn(4, 6))
        optimizer.zero_grad()
        (agent.net(torch.randn(4, 6)) - wanted).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(("make", "shallow"), [(same, False), (copy.copy, True)])
def test_a_target_that_shares_all_parameters_is_told_once(make: Copy, shallow: bool) -> None:
    with watched() as seen:
        learn(Agent(make))
    [found] = seen.observed(AliasedCopy)
    assert isinstance(found, AliasedCopy)
    assert (found.copy, found.model, found.shallow) == ("target_net", "net", shallow)


def test_copies_and_names_of_other_functions_are_not_told() -> None:
    with watched() as seen:
        learn(Agent(copy.deepcopy))
        target_model = classifier()
        other = Agent(copy.deepcopy)
        other.net = target_model  # an argument with another name
        learn(other)
    assert seen.observed(AliasedCopy) == []
