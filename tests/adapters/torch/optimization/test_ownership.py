from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.func import functional_call, grad
from torch.nn import functional
from torch.optim import Optimizer

from mothtrap.adapters.torch.optimization import ownership
from mothtrap.adapters.torch.optimization.ownership import REPORTED_EVERY, OwnershipObserver
from mothtrap.core.facts.optimizers import UnownedParameter

REPORTED_AT = ownership.REPORTED_AT[-1]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).relu())


def run(model: nn.Module, optimizer: Optimizer, steps: int = REPORTED_AT + 1) -> None:
    """Make one step more than needed: the last one is closed when the model is gone."""
    for _ in range(steps):
        optimizer.zero_grad()
        x, y = batch()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def told(act: Callable[[], None]) -> dict[str, UnownedParameter]:
    with watched() as seen:
        act()
    return {found.name: found for found in seen.observed(UnownedParameter)}


def test_a_head_that_no_optimizer_holds_is_told() -> None:
    def act() -> None:
        model = Net()
        run(model, sgd(model.body))

    found = told(act)
    assert set(found) == {"head.weight", "head.bias"}
    head = found["head.weight"]
    assert (head.step, head.module, head.shape) == (REPORTED_AT - 1, "head", (3, 8))
    assert head.reached_steps == REPORTED_AT
    assert not head.changed
    assert head.downstream_of_trained
    assert not head.created_after_optimizer
    assert head.twin is None
    assert "test_ownership.py" in str(head.location)


def test_gradients_that_are_cleared_before_the_next_forward_are_counted() -> None:
    def act() -> None:
        model = Net()
        optimizer = sgd(model.body)
        for _ in range(REPORTED_AT + 1):
            model.zero_grad()
            x, y = batch()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    assert told(act)["head.weight"].reached_steps == REPORTED_AT


def test_a_trained_model_has_nothing_to_tell() -> None:
    def act() -> None:
        model = Net()
        run(model, sgd(model))

    assert told(act) == {}


def test_a_frozen_backbone_is_not_told_and_an_unfrozen_one_lies_upstream() -> None:
    def act(frozen: bool) -> None:
        model = Net()
        model.body.requires_grad_(not frozen)
        run(model, sgd(model.head))

    assert told(lambda: act(True)) == {}
    found = told(lambda: act(False))
    assert set(found) == {"body.weight", "body.bias"}
    assert not found["body.weight"].downstream_of_trained


def test_parameters_that_a_later_optimizer_takes_in_are_not_told() -> None:
    def act() -> None:
        model = Net()
        optimizer = sgd(model.body)
        run(model, optimizer, 5)
        late = sgd(model.head)
        for _ in range(REPORTED_AT):
            x, y = batch()
            optimizer.zero_grad()
            late.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            late.step()

    assert told(act) == {}


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_head_replaced_after_the_optimizer_was_made_has_a_twin(ran_before: bool) -> None:
    def act() -> None:
        model = Net()
        if ran_before:
            model(batch()[0])
        optimizer = sgd(model)
        model.head = nn.Linear(8, 3)
        run(model, optimizer)

    found = told(act)
    assert set(found) == {"head.weight", "head.bias"}
    assert found["head.weight"].created_after_optimizer
    assert found["head.weight"].twin == "SGD.parameters[2]"
    assert found["head.bias"].twin == "SGD.parameters[3]"


def test_a_head_replaced_during_training_is_told_later() -> None:
    def act() -> None:
        model = Net()
        optimizer = sgd(model)
        run(model, optimizer, REPORTED_AT + 5)
        model.head = nn.Linear(8, 3)
        run(model, optimizer, 2 * REPORTED_EVERY - REPORTED_AT - 4)

    found = told(act)
    assert set(found) == {"head.weight", "head.bias"}
    assert found["head.weight"].created_after_optimizer
    assert found["head.weight"].twin == "SGD.parameters[2]"


def test_values_that_someone_changes_are_told_to_change() -> None:
    def act() -> None:
        model = Net()
        optimizer = sgd(model.body)
        for _ in range(REPORTED_AT + 1):
            run(model, optimizer, 1)
            with torch.no_grad():
                for parameter in model.head.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None

    assert all(found.changed for found in told(act).values())


def test_a_part_that_gets_no_gradient_is_reached_in_no_step() -> None:
    def act() -> None:
        model = Net()
        model.unused = nn.Linear(2, 2)
        run(model, sgd(model.body))

    found = told(act)
    assert found["unused.weight"].reached_steps == 0
    assert found["head.weight"].reached_steps == REPORTED_AT


def test_a_model_of_no_optimizer_is_not_told() -> None:
    def act() -> None:
        teacher, student = classifier(), classifier()
        optimizer = sgd(student)
        for _ in range(REPORTED_AT):
            optimizer.zero_grad()
            x, _ = batch()
            functional.mse_loss(student(x), teacher(x)).backward()
            optimizer.step()

    assert told(act) == {}


def test_short_lived_parameters_do_not_fill_what_is_watched() -> None:
    with watched() as seen:
        model = Net()
        optimizer = sgd(model.body)
        run(model, optimizer, 2)
        assert len(seen.observer(OwnershipObserver)._watched) == 2
        del model, optimizer
        model = classifier()
        run(model, sgd(model), 3)
        assert len(seen.observer(OwnershipObserver)._watched) == 0


def test_a_new_model_that_no_optimizer_knows_is_told_and_a_trained_one_is_not() -> None:
    def act(trained_before: bool) -> None:
        encoder, head = nn.Linear(6, 32), nn.Linear(32, 3)
        if trained_before:
            with torch.no_grad():
                encoder.weight.mul_(2.0)
        optimizer = sgd(head)
        for _ in range(REPORTED_AT + 1):
            x, y = batch()
            optimizer.zero_grad()
            functional.cross_entropy(head(encoder(x).relu()), y).backward()
            optimizer.step()

    found = told(lambda: act(False))
    assert set(found) == {"weight", "bias"}
    assert all(seen.model_untouched for seen in found.values())
    assert told(lambda: act(True)) == {}


@pytest.mark.parametrize("transformed", [False, True])
def test_a_model_that_is_called_with_other_parameters_first_is_looked_at_with_its_own(
    transformed: bool,
) -> None:
    """Steps close where a forward begins, when unreadable tensors were in place."""

    def act() -> None:
        model = Net()
        teacher = {name: p.detach().clone() for name, p in model.named_parameters()}

        def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return functional_call(model, given, (x,)).pow(2).mean()

        optimizer = sgd(model.body)
        for _ in range(REPORTED_AT + 1):
            (grad(loss) if transformed else loss)(teacher, batch()[0])
            run(model, optimizer, 1)

    assert set(told(act)) == {"head.weight", "head.bias"}


@pytest.mark.parametrize("copies", [True, False])
def test_a_copy_of_a_trained_model_is_not_taken_for_a_forgotten_one(copies: bool) -> None:
    def act() -> None:
        models = [nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)) for _ in range(2)]
        model, other = models
        if copies:
            other = copy.deepcopy(model)
        optimizer = sgd(model)
        for _ in range(REPORTED_AT + 1):
            optimizer.zero_grad()
            x, _ = batch()
            functional.mse_loss(model(x), 0.9 * other(x)).backward()  # not detached
            optimizer.step()

    assert bool(told(act)) is not copies


@pytest.mark.parametrize("trained", [False, True])
def test_the_share_of_a_model_that_looks_drawn_is_told(trained: bool) -> None:
    def act() -> None:
        model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
        if trained:  # trained weights have heavy tails
            nn.init.normal_(model[0].weight)
        run(model, sgd(model[2]))

    share = told(act)["0.weight"].fresh_share
    total = 6 * 64 + 64 + 64 * 3 + 3
    assert share == pytest.approx(0.0 if trained else 6 * 64 / total)
