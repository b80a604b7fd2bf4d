"""Targets that are outputs of a model under training, or of a copy of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.evaluations import BootstrappedTargets


def found(ahead: Callable[[nn.Module, int], None], steps: int = 40) -> list[BootstrappedTargets]:
    """Train a model, and before each step run something."""
    model = classifier()
    x, y = batch()
    with watched() as seen:
        optimizer = sgd(model)
        for step in range(steps):
            with torch.no_grad():
                ahead(model, step)
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return seen.observed(BootstrappedTargets)


def test_a_copy_that_runs_in_each_step_makes_targets() -> None:
    copies: list[nn.Module] = []

    def target(model: nn.Module, step: int) -> None:
        if not step:
            copies.append(copy.deepcopy(model).eval())
        copies[0](batch()[0])

    [fact] = found(target)
    assert 8 <= fact.step <= 12
    assert fact.steps == 10


def test_a_copy_that_no_optimizer_has_makes_targets_with_a_graph_too() -> None:
    copies: list[nn.Module] = []

    def target(model: nn.Module, step: int) -> None:
        if not step:
            copies.append(copy.deepcopy(model))
        with torch.enable_grad():
            copies[0](batch()[0])

    [fact] = found(target)
    assert fact.steps == 10


def test_the_model_itself_makes_targets_in_every_second_step() -> None:
    [fact] = found(lambda model, step: model(batch()[0]) if step % 2 else None)
    assert fact.steps == 10


def evaluated(model: nn.Module, step: int) -> None:
    model.eval()
    model(batch()[0])
    model.train()


def sampled(model: nn.Module, step: int) -> None:
    for _ in range(30 if step % 8 == 0 else 0):
        model(batch()[0])


TEACHER = nn.Linear(6, 3)


@pytest.mark.parametrize(
    "ahead",
    [evaluated, sampled, lambda model, step: TEACHER(batch()[0])],
    ids=["evaluation", "samples now and then", "teacher of another design"],
)
def test_other_forwards_without_a_graph_make_none(ahead: Callable[[nn.Module, int], None]) -> None:
    assert found(ahead) == []
