from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import batch, sgd, watched
from torch import nn

from mothtrap.adapters.torch.job import retained_outputs
from mothtrap.core.facts.nonfinite import FiniteOutputs, NonfiniteModule

Tensor = torch.Tensor


class Log(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.log()


def found(model: nn.Module, x: Tensor) -> list[NonfiniteModule]:
    with watched() as seen:
        optimizer = sgd(model)
        model(x).sum().backward()
        optimizer.step()
    return seen.observed(NonfiniteModule)


def test_the_first_module_that_broke_is_named() -> None:
    model = nn.Sequential(nn.Linear(6, 4), Log(), nn.Linear(4, 2), nn.ReLU())
    [origin] = found(model, batch()[0])
    assert (origin.module, origin.module_type, origin.step) == ("1", "Log", 0)
    assert origin.nan > 0
    assert origin.inputs_known
    assert origin.parameters_finite
    assert origin.location is not None


def test_a_healthy_step_names_no_one() -> None:
    assert found(nn.Sequential(nn.Linear(6, 4), nn.ReLU()), batch()[0]) == []


def test_nan_in_the_data_is_no_module_s_fault() -> None:
    x = batch()[0]
    x[0, 0] = math.nan
    assert found(nn.Sequential(nn.Linear(6, 4), nn.ReLU()), x) == []


def test_a_module_with_broken_weights_says_so() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].weight[0, 0] = math.inf
    [origin] = found(model, batch()[0])
    assert (origin.module, origin.parameters_finite) == ("1", False)


def test_outputs_that_are_gone_leave_the_origin_open(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.log = nn.Linear(6, 4), nn.Identity(), Log()

        def forward(self, x: Tensor) -> Tensor:
            return self.log(self.second(self.first(x).detach().clone()) - 10.0).requires_grad_()

    monkeypatch.setattr(retained_outputs, "RETAINED_BYTES", 0)
    model = Forgetful()
    with watched() as seen:
        optimizer = sgd(model)
        out = model(batch()[0])
        (out.sum() + model.first.weight.sum()).backward()
        optimizer.step()
    [origin] = seen.observed(NonfiniteModule)
    assert (origin.module, origin.inputs_known) == ("log", False)


def test_a_generator_that_broke_is_named_although_it_feeds_another_model() -> None:
    generator = nn.Sequential(nn.Linear(6, 4), Log())
    critic = nn.Sequential(nn.Linear(4, 1))
    with watched() as seen:
        optimizer = sgd(critic)
        torch.optim.SGD(generator.parameters(), lr=0.1)
        critic(generator(batch()[0]).detach()).sum().backward()
        optimizer.step()
    [origin] = seen.observed(NonfiniteModule)
    assert origin.module == "1"


def test_a_gradient_that_broke_after_a_finite_loss_names_no_module() -> None:
    weight = nn.Parameter(torch.zeros(3))
    with watched() as seen:
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.abs().sqrt().sum().backward()
        optimizer.step()
    assert seen.observed(NonfiniteModule) == []


def test_a_loss_that_breaks_behind_the_model_leaves_its_outputs_finite() -> None:
    model = nn.Linear(6, 2)
    with watched() as seen:
        optimizer = sgd(model)
        (model(batch()[0]).sum() * float("nan")).backward()
        optimizer.step()
    [clean] = seen.observed(FiniteOutputs)
    assert (clean.step, clean.modules) == (0, 1)
    assert seen.observed(NonfiniteModule) == []


def test_only_the_onset_is_looked_at() -> None:
    model, loss = nn.Linear(6, 2), nn.MSELoss()
    with watched() as seen:
        optimizer = sgd(model, rate=1e38)
        for _ in range(6):
            optimizer.zero_grad()
            loss(model(batch()[0]), torch.ones(4, 2)).backward()
            optimizer.step()
    assert len(seen.observed(NonfiniteModule)) == 1


@pytest.mark.parametrize(("factor", "given"), [(torch.nan, True), (torch.inf, False)])
def test_nan_from_between_modules_is_not_blamed_on_the_one_that_was_given_it(
    factor: float, given: bool
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).abs() * factor)

    [origin] = found(Net(), torch.ones(2, 3))
    assert origin.module == "second"
    assert origin.given == given
