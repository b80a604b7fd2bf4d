"""What is seen of the order in which gradients are made, cleared and applied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.reach_observations import GradientsCleared

Tensor = torch.Tensor
HERE = "test_gradientorder.py"


def backward(model: nn.Module) -> None:
    x, y = batch()
    functional.cross_entropy(model(x), y).backward()


def steps_cleared(*order: str, rounds: int = 4) -> list[int]:
    """Steps at which gradients are told to be cleared, of a loop that does some acts."""
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


def test_old_gradients_that_are_cleared_are_not_those_of_the_backward() -> None:
    """They were applied; the backward between them and the step went elsewhere."""
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
