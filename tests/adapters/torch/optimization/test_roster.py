from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.optimization.roster import Roster, parameters


def optimizer(*sizes: int) -> torch.optim.Optimizer:
    groups = [{"params": [nn.Parameter(torch.ones(size))]} for size in sizes]
    return torch.optim.SGD(groups, lr=0.1)


def test_a_roster_is_of_an_optimizer_while_it_holds_the_same_parameters() -> None:
    one = optimizer(1, 2)
    roster = Roster(list(parameters(one)))
    assert roster.is_of(one)
    assert not roster.is_of(optimizer(1, 2))  # equal ones are others
    one.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    assert not roster.is_of(one)


def test_order_and_exchange_show() -> None:
    one = optimizer(2, 2)
    roster = Roster(list(parameters(one)))
    one.param_groups.reverse()
    assert not roster.is_of(one)
    one.param_groups.reverse()
    assert roster.is_of(one)
    one.param_groups[1]["params"][0] = nn.Parameter(torch.ones(2))
    assert not roster.is_of(one)
    del one.param_groups[1]
    assert not roster.is_of(one)


def test_an_optimizer_without_parameters_has_an_empty_one() -> None:
    one = optimizer(1)
    one.param_groups.clear()
    assert Roster(()).is_of(one)
    assert list(parameters(one)) == []
