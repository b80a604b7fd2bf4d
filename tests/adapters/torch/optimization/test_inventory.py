from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from mothtrap.adapters.torch.optimization.inventory import REPORTED_AT
from mothtrap.core.facts.modules import (
    FreezeWithoutEffect,
    FrozenParameters,
    HiddenParameters,
)

STEPS = REPORTED_AT[0]


class Listed(nn.Module):
    """Layers in a plain list, and a plain leaf tensor beside them."""

    def __init__(self, keep: type = list) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        layers = [nn.Linear(8, 8) for _ in range(2)]
        self.layers = {"inner": layers} if keep is dict else keep(layers)
        self.scale = torch.ones(8, requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        layers = self.layers["inner"] if isinstance(self.layers, dict) else self.layers
        for layer in layers:
            x = layer(x).relu()
        return self.last(x * self.scale)


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS + 1) -> None:
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("keep", [list, tuple, dict])
def test_layers_in_a_plain_container_are_told(keep: type) -> None:
    with watched() as seen:
        model = Listed(keep)
        learn(model, sgd(model))
    layers, scale = seen.observed(HiddenParameters)
    assert (layers.holder, layers.parameters, layers.elements) == ("layers", 4, 144)
    assert layers.what == f"plain {keep.__name__} of 2 Linear"
    assert layers.reached_steps == STEPS - 2
    assert not layers.changed
    assert "test_inventory.py" in str(layers.location)
    assert (scale.holder, scale.parameters) == ("scale", 1)


def test_what_trains_by_other_means_is_said_to_change() -> None:
    with watched() as seen:
        model = Listed()
        optimizer = sgd(model)
        for _ in range(STEPS + 1):
            learn(model, optimizer, 1)
            with torch.no_grad():
                model.layers[0].weight.mul_(0.9)
                model.scale.mul_(0.9)
    assert [told.changed for told in seen.observed(HiddenParameters)] == [True, True]


def test_what_an_optimizer_was_given_by_hand_is_not_hidden() -> None:
    with watched() as seen:
        model = Listed()
        extra = [p for layer in model.layers for p in layer.parameters()]
        learn(model, torch.optim.SGD([*model.parameters(), *extra, model.scale], lr=0.1))
    assert seen.observed(HiddenParameters) == []


def test_a_teacher_in_a_list_gets_no_gradient_and_is_not_told() -> None:
    class Distilled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student, self.teacher = classifier(), [classifier()]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                wanted = self.teacher[0](x)
            return self.student(x) - wanted

    with watched() as seen:
        model = Distilled()
        learn(model, sgd(model))
    assert seen.observed(HiddenParameters) == []


def frozen_told(model: nn.Module, trained: nn.Module) -> list[FrozenParameters]:
    with watched() as seen:
        learn(model, sgd(trained))
    return seen.observed(FrozenParameters)


def test_a_new_backbone_that_is_frozen_is_told_as_untouched() -> None:
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
    model[0].requires_grad_(False)
    [told] = frozen_told(model, model[2])
    assert (told.root, told.elements, told.frozen) == ("Sequential", 643, 448)
    assert told.untouched == told.judged == 448
    assert told.modules == ("0",)


def test_a_backbone_that_was_trained_before_is_not_untouched() -> None:
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
    train(model, sgd(model), 30)
    model[0].requires_grad_(False)
    [told] = frozen_told(model, model[2])
    assert (told.frozen, told.untouched) == (448, 0)


def test_a_model_that_trains_as_a_whole_has_nothing_to_tell() -> None:
    with watched() as seen:
        model = classifier()
        train(model, sgd(model), STEPS + 1)
    assert seen.observed(FrozenParameters) == []
    assert seen.observed(HiddenParameters) == []


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_is_looked_through_when_it_has_its_own_parameters(frozen: bool) -> None:
    """Steps close where a forward begins, perhaps with the parameters of a teacher in place."""
    with watched() as seen:
        model = Listed()
        model.last.requires_grad_(not frozen)
        teacher = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer = sgd(model)
        for _ in range(STEPS + 1):
            functional_call(model, teacher, (batch()[0],))
            learn(model, optimizer, 1)
    assert [told.frozen for told in seen.observed(FrozenParameters)] == ([27] if frozen else [])
    assert len(seen.observed(HiddenParameters)) == 2


def test_a_model_that_is_frozen_while_its_opponent_trains_is_not_untouched() -> None:
    mine, other = nn.Linear(3, 3), nn.Linear(3, 1)
    with watched() as seen:
        optimizers = [sgd(mine), torch.optim.SGD(other.parameters(), lr=0.0)]
        for step in range(6):
            other.requires_grad_(step % 2 == 1)
            other(mine(torch.randn(4, 3))).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert [told.untouched for told in seen.observed(FrozenParameters)] == [0]


def unfrozen_told(
    freeze: Callable[[nn.Module], None], *, of_head: bool = False
) -> list[FreezeWithoutEffect]:
    model = classifier()
    with watched() as seen:
        freeze(model)
        learn(model, sgd(model[2] if of_head else model))
    found = seen.observed(FreezeWithoutEffect)
    return [one for one in found if isinstance(one, FreezeWithoutEffect)]


def set_flag(model: nn.Module, name: str, value: object = False) -> None:
    for parameter in model[0].parameters():
        setattr(parameter, name, value)


@pytest.mark.parametrize("name", ["require_grad", "requires_gradient", "required_grad"])
def test_a_misspelled_flag_of_trained_parameters_is_told(name: str) -> None:
    [told] = unfrozen_told(lambda model: set_flag(model, name))
    assert (told.attribute, told.parameters, told.of_module) == (name, 2, False)
    assert told.holders == ("0.weight", "0.bias")


def test_a_flag_of_a_module_is_told() -> None:
    [told] = unfrozen_told(lambda model: setattr(model[0], "requires_grad", False))
    assert (told.holders, told.parameters, told.of_module) == (("0",), 2, True)


@pytest.mark.parametrize(
    "freeze",
    [
        lambda model: set_flag(model, "requires_grad"),
        lambda model: set_flag(model, "require_grad", True),
        lambda model: set_flag(model, "grad_scale"),
        lambda model: model[0].requires_grad_(False),
    ],
)
def test_parameters_that_are_frozen_are_not_told(freeze: Callable[[nn.Module], None]) -> None:
    assert unfrozen_told(freeze) == []


def test_parameters_that_no_optimizer_has_are_not_told() -> None:
    assert unfrozen_told(lambda model: set_flag(model, "require_grad"), of_head=True) == []
