"""The order in which gradients are computed, clipped, cleared and applied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.optimizers import ClippedLate, GradientsCleared, MicroBatchesCleared

Tensor = torch.Tensor
HERE = "test_gradient_order.py"


def backward(model: nn.Module) -> None:
    x, y = batch()
    functional.cross_entropy(model(x), y).backward()


def steps_cleared(*order: str, rounds: int = 4) -> list[int]:
    """Return the steps at which a loop with the given actions is reported to clear gradients."""
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        other = torch.optim.SGD(classifier().parameters(), lr=0.1)
        acts: dict[str, Callable[[], object]] = {
            "zero": optimizer.zero_grad,
            "zero the model": model.zero_grad,
            "zero another": other.zero_grad,
            "zero another model": classifier().zero_grad,
            "forward": lambda: model(batch()[0]),
            "forget by hand": lambda: [setattr(p, "grad", None) for p in model.parameters()],
            "backward": lambda: backward(model),
            "backward elsewhere": lambda: backward(classifier()),
            "step": optimizer.step,
        }
        for _ in range(rounds):
            for act in order:
                acts[act]()
    found = seen.observed(GradientsCleared)
    assert all(s.optimizer == "SGD" and HERE in (s.location or "") for s in found)
    return [s.step for s in found]


@pytest.mark.parametrize("zero", ["zero", "zero the model"])
def test_clearing_between_backward_and_step_is_told_once(zero: str) -> None:
    assert steps_cleared("backward", zero, "step") == [0]


@pytest.mark.parametrize(
    "order",
    [
        ("zero", "backward", "step"),
        ("backward", "step", "zero"),
        ("backward", "zero", "backward", "step"),
        ("backward", "zero another", "zero another model", "step"),
        ("forward", "zero", "step"),
        ("backward elsewhere", "zero", "step"),
        ("backward", "forget by hand", "zero", "step"),
    ],
    ids=" ".join,
)
def test_what_is_not_cleared_before_its_step_is_not_told(order: tuple[str, ...]) -> None:
    assert steps_cleared(*order) == []


@pytest.mark.parametrize(
    ("order", "found"),
    [
        (("zero", "backward", "zero", "backward", "zero", "backward", "step"), [(7, 8, 3)]),
        (("zero", "backward", "backward", "zero", "backward", "step"), []),
        (("zero", "backward", "backward", "step"), []),
        (("zero", "backward", "zero", "backward again", "step"), []),
        (("zero", "backward", "step"), []),
    ],
)
def test_micro_batches_that_are_cleared_are_reported_once(
    order: tuple[str, ...], found: list[tuple[int, int, int]]
) -> None:
    model = classifier()

    def again() -> None:
        model(batch()[0]).square().mean().backward()

    with watched() as seen:
        optimizer = sgd(model)
        acts = {
            "zero": optimizer.zero_grad,
            "backward": lambda: backward(model),
            "backward again": again,
            "step": optimizer.step,
        }
        for _ in range(12):
            for act in order:
                acts[act]()
    every = seen.observed(MicroBatchesCleared)
    assert [(s.step, s.steps, s.micro_batches) for s in every] == found
    assert all(HERE in (s.location or "") for s in every)


def test_old_gradients_that_are_cleared_are_not_those_of_the_backward() -> None:
    """They were applied; the backward between them and the step was for other parameters."""
    model, elsewhere = classifier(), classifier()
    with watched() as seen:
        optimizer = sgd(model)
        backward(model)
        optimizer.step()
        backward(elsewhere)
        optimizer.zero_grad()
        optimizer.step()
    assert seen.observed(GradientsCleared) == []


def test_of_two_players_the_one_whose_gradients_are_made_again_is_not_told() -> None:
    generator, critic = nn.Linear(2, 6), nn.Linear(6, 1)
    with watched() as seen:
        for_critic, for_generator = sgd(critic), sgd(generator)
        for _ in range(4):
            for_generator.zero_grad()
            critic(generator(torch.randn(4, 2))).mean().backward()
            for_generator.step()
            for_critic.zero_grad()
            critic(torch.randn(4, 6)).mean().backward()
            for_critic.step()
    assert seen.observed(GradientsCleared) == []


# Clipping


def clip(model: nn.Module, limit: float = 0.01) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), limit)


def late_steps(*order: str, rounds: int = 5) -> list[tuple[int, int]]:
    """Return the reported numbers of steps clipped late and in time, for the given actions."""
    model, player = classifier(), classifier()
    with watched() as seen:
        optimizer, its_own = sgd(model), torch.optim.Adam(player.parameters())
        acts: dict[str, Callable[[], object]] = {
            "zero": optimizer.zero_grad,
            "zero in place": lambda: optimizer.zero_grad(set_to_none=False),
            "backward": lambda: backward(model),
            "backward of both": lambda: backward(nn.Sequential(model, nn.Linear(3, 6), player)),
            "clip": lambda: clip(model),
            "clip both": lambda: clip(nn.ModuleList([model, player])),
            "norm": lambda: clip(model, float("inf")),
            "step": optimizer.step,
            "step of another": its_own.step,
            "zero another": its_own.zero_grad,
        }
        for _ in range(rounds):
            for act in order:
                acts[act]()
    found = seen.observed(ClippedLate)
    assert all(s.since == 0 and HERE in (s.location or "") for s in found)
    return [(s.late_steps, s.timely_steps) for s in found]


@pytest.mark.parametrize(
    "order",
    [
        ("zero", "backward", "step", "clip"),
        ("zero in place", "backward", "step", "clip"),
        ("backward", "step", "clip", "zero"),
        ("zero", "backward", "backward", "step", "clip"),
        ("zero", "backward", "norm", "step", "clip"),
        ("zero", "zero another", "backward of both", "step", "step of another", "clip"),
    ],
    ids=" ".join,
)
def test_clipping_what_was_applied_and_is_cleared_is_late(order: tuple[str, ...]) -> None:
    assert late_steps(*order) == [(1, 0), (2, 0), (4, 0)]


@pytest.mark.parametrize(
    "order",
    [
        ("zero", "backward", "clip", "step"),
        ("zero", "backward", "step", "norm"),
        ("zero", "backward", "clip", "step", "clip"),
        ("zero", "backward", "clip", "backward", "step"),
        ("backward", "step", "clip"),
        ("backward", "step", "zero", "clip"),
        ("zero", "zero another", "backward of both", "step", "clip both", "step of another"),
        ("zero", "backward", "step", "zero another", "backward of both", "clip", "step of another"),
    ],
    ids=" ".join,
)
def test_clipping_that_may_have_an_effect_is_not_late(order: tuple[str, ...]) -> None:
    assert late_steps(*order) == []


def test_that_it_is_not_always_late_is_told() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for step in range(4):
            optimizer.zero_grad()
            backward(model)
            if step == 3:
                clip(model)
            optimizer.step()
            clip(model)
    told = [(s.late_steps, s.timely_steps) for s in seen.observed(ClippedLate)]
    assert told == [(1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_with_a_scaler_that_skips_and_micro_batches(in_time: bool, accumulated: int) -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for batch_number in range(6 * accumulated):
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            if batch_number < 2 * accumulated:
                loss = loss * torch.inf  # the scaler skips the first steps
            scaler.scale(loss).backward()
            if (batch_number + 1) % accumulated:
                continue
            if in_time:
                scaler.unscale_(optimizer)
                clip(model)
            scaler.step(optimizer)
            scaler.update()
            if not in_time:
                clip(model)
            optimizer.zero_grad()
    told = [(s.late_steps, s.timely_steps) for s in seen.observed(ClippedLate)]
    assert told == ([] if in_time else [(1, 0), (2, 0)])


def test_clipping_each_micro_batch_is_not_late() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for number in range(12):
            backward(model)
            clip(model)
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    assert seen.observed(ClippedLate) == []


def test_clipping_in_a_closure_is_not_late() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

        def closure() -> Tensor:
            optimizer.zero_grad()
            x, y = batch()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            clip(model, 1.0)
            return loss

        for _ in range(3):
            optimizer.step(closure)
    assert seen.observed(ClippedLate) == []
