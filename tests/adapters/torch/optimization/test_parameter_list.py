from __future__ import annotations

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.optimization import parameter_list as rosters
from mothtrap.adapters.torch.optimization.parameter_list import OptimizerParameters, parameters
from mothtrap.statistics.torch import team as teams
from mothtrap.statistics.torch.team import Team


def optimizer(*sizes: int) -> torch.optim.Optimizer:
    groups = [{"params": [nn.Parameter(torch.ones(size))]} for size in sizes]
    return torch.optim.SGD(groups, lr=0.1)


def test_a_parameter_list_is_of_an_optimizer_while_it_holds_the_same_parameters() -> None:
    one = optimizer(1, 2)
    parameter_list = OptimizerParameters(list(parameters(one)))
    assert parameter_list.is_of(one)
    assert not parameter_list.is_of(optimizer(1, 2))  # equal ones are different objects
    one.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    assert not parameter_list.is_of(one)


def test_order_and_exchange_show() -> None:
    one = optimizer(2, 2)
    parameter_list = OptimizerParameters(list(parameters(one)))
    one.param_groups.reverse()
    assert not parameter_list.is_of(one)
    one.param_groups.reverse()
    assert parameter_list.is_of(one)
    one.param_groups[1]["params"][0] = nn.Parameter(torch.ones(2))
    assert not parameter_list.is_of(one)
    del one.param_groups[1]
    assert not parameter_list.is_of(one)


def test_an_optimizer_without_parameters_has_an_empty_one() -> None:
    one = optimizer(1)
    one.param_groups.clear()
    assert OptimizerParameters(()).is_of(one)
    assert list(parameters(one)) == []


class OwnSGD(torch.optim.SGD):
    """Some optimizers may compute in their own way."""


@pytest.mark.parametrize(
    ("kind", "size", "told"),
    [(torch.optim.SGD, 2**16, True), (torch.optim.SGD, 10, False), (OwnSGD, 2**16, False)],
)
def test_a_step_that_takes_all_threads_is_told(
    monkeypatch: pytest.MonkeyPatch, kind: type[torch.optim.SGD], size: int, told: bool
) -> None:
    team = Team()
    monkeypatch.setattr(rosters, "TEAM", team)
    monkeypatch.setattr(teams, "_COMPILER", "no.such.compiler")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        values = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(size))]
        one = kind(values, lr=0.1)
        parameter_list = OptimizerParameters(values)
        parameter_list.stepped(one)
        assert not team.region()  # without gradients nothing is changed
        values[1].grad = torch.ones(size)
        parameter_list.stepped(one)
        assert (team._met[-1] == 2) == told
    finally:
        torch.set_num_threads(before)
