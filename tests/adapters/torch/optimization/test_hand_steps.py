"""Parameters that a script updates itself: real steps, and changes that only look like one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd, watched
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from mothtrap.core.facts.optimizers import UpdateDirection

RATE = 0.1
BEFORE = 3
"""Number of updates after which they are recognized as steps."""


def by_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data.add_(parameter.grad, alpha=-RATE)
        parameter.grad = None


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter -= RATE * parameter.grad
            parameter.grad.zero_()


def by_new_memory(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data = parameter.data - RATE * parameter.grad
    model.zero_grad()


def loss_of(model: Callable[[Tensor], Tensor]) -> Tensor:
    x, y = batch()
    return functional.cross_entropy(model(x), y)


def trained(seen: Seen) -> list[float]:
    return seen.scalars("loss")


@pytest.mark.parametrize("update", [by_data, in_place, by_new_memory])
def test_an_update_without_an_optimizer_is_a_step_with_its_loss_and_gradients(
    update: Callable[[nn.Module], None],
) -> None:
    model, losses, norms = classifier(), [], []
    with watched() as seen:
        for _ in range(8):
            loss = loss_of(model)
            loss.backward()
            losses.append(loss.item())
            norms.append(model[0].weight.grad.norm().item())
            update(model)
    assert trained(seen) == losses[BEFORE:]
    assert list(seen.rows("gradient:0.weight", "l2").values()) == pytest.approx(norms[BEFORE:])
    ratios = seen.rows("weight:0.weight", "update_ratio")
    assert ratios
    assert min(ratios.values()) > 0
    assert set(seen.scalars("gradient_state")) == {0.0}
    assert seen.scalars("skipped") == [0.0] * 5


def test_micro_batches_by_hand_are_one_step() -> None:
    model, sums = classifier(), []
    with watched() as seen:
        for _ in range(7):
            losses = []
            for _ in range(3):
                losses.append(loss_of(model))
                losses[-1].backward()
            sums.append(sum(loss.item() for loss in losses))
            in_place(model)
    assert trained(seen) == pytest.approx(sums[BEFORE:])
    assert seen.scalars("micro_batches") == [3.0] * 4


def test_bare_parameters_without_a_model_make_steps() -> None:
    weight, bias = torch.randn(6, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    losses = []
    with watched() as seen:
        for _ in range(6):
            loss = loss_of(lambda x: x @ weight + bias)
            loss.backward()
            losses.append(loss.item())
            with torch.no_grad():
                for parameter in (weight, bias):
                    parameter -= RATE * parameter.grad
                    parameter.grad = None
    assert trained(seen) == losses[BEFORE:]
    assert len(seen.names("weight")) + len(seen.names("bias")) == 2


def test_a_step_that_the_script_leaves_out_is_skipped() -> None:
    model = classifier()
    with watched() as seen:
        for turn in range(8):
            loss_of(model).backward()
            if turn != 5:
                in_place(model)
            model.zero_grad()
    assert seen.scalars("skipped") == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_an_optimizer_that_takes_the_parameters_over_makes_the_steps() -> None:
    model = classifier()
    with watched() as seen:
        for _ in range(5):
            loss_of(model).backward()
            in_place(model)
        optimizer = sgd(model)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    assert [step.optimizers for step in seen.steps()] == [("ByHand",)] * 2 + [("SGD",)] * 3


# Healthy counterparts: parameters change, but this is not a step.


def test_an_averaged_copy_that_the_loss_reaches_makes_no_steps() -> None:
    model, averaged = classifier(), classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            x, y = batch()
            optimizer.zero_grad()
            (functional.cross_entropy(model(x), y) + averaged(x).square().mean()).backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.1)
    assert [step.optimizers for step in seen.steps()] == [("SGD",)] * 6


def test_clipped_weights_are_the_optimizers() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            for parameter in model.parameters():
                parameter.data.clamp_(-0.01, 0.01)
    assert [step.optimizers for step in seen.steps()] == [("SGD",)] * 6


@pytest.mark.parametrize("trained_too", [False, True])
def test_a_model_that_is_only_looked_at_makes_no_steps(trained_too: bool) -> None:
    spectral = nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 4)), nn.LazyLinear(3))
    model = classifier()
    kept = classifier().state_dict()
    with watched() as seen:
        if trained_too:
            optimizer = sgd(model)
        for turn in range(8):
            x, y = batch()
            x.requires_grad_()
            functional.cross_entropy(spectral(x), y).backward()  # inputs of an adversarial attack
            assert x.grad is not None
            x.data.add_(x.grad.sign(), alpha=0.01)
            if turn % 4 == 0:
                model.load_state_dict(kept)
            functional.cross_entropy(model(x.detach()), y).backward()
            if trained_too:
                optimizer.step()
    assert len(seen.steps()) == (8 if trained_too else 0)
    assert all(step.optimizers == ("SGD",) for step in seen.steps())


def test_the_direction_of_the_first_updates_is_reported_by_weight() -> None:
    first, second = nn.Linear(6, 16), nn.Linear(16, 3)
    model = nn.Sequential(first, nn.Tanh(), second)
    with watched() as seen:
        for _ in range(BEFORE + 12):
            loss_of(model).backward()
            with torch.no_grad():
                for parameter in first.parameters():
                    parameter += RATE * parameter.grad
                for parameter in second.parameters():
                    parameter.data.sub_(RATE * parameter.grad)
            model.zero_grad()
    reported = seen.observed(UpdateDirection)
    assert len(reported) == 8
    assert reported[0].step == 0
    for direction in reported:
        assert direction.layers == ("0.weight", "0.bias", "2.weight", "2.bias")
        assert direction.cosines == pytest.approx((1, 1, -1, -1), abs=1e-3)
