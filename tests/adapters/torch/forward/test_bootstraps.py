"""Targets that are outputs of a model under training, or of a copy of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.evaluations import BootstrappedTargets, EvaluationPhase


def found(ahead: Callable[[nn.Module, int], None], steps: int = 40) -> list[BootstrappedTargets]:
    """Train a model, calling a function before each step."""
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


def with_a_graph(*, target_first: bool) -> list[BootstrappedTargets]:
    """Train on targets that the model computes with a graph, which is then detached."""
    model = nn.Linear(6, 3)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(40):
            state, after = torch.randn(8, 6), torch.randn(8, 6)
            if target_first:
                target = model(after).max(1)[0].detach()
                prediction = model(state)[:, 0]
            else:
                prediction = model(state)[:, 0]
                target = model(after).max(1)[0].detach()
            optimizer.zero_grad()
            functional.smooth_l1_loss(prediction, 0.1 + 0.9 * target).backward()
            optimizer.step()
    return seen.observed(BootstrappedTargets)


@pytest.mark.parametrize("target_first", [False, True])
def test_the_model_itself_makes_targets_that_are_detached(target_first: bool) -> None:
    [fact] = with_a_graph(target_first=target_first)
    assert fact.steps == 10


def test_targets_that_are_detached_are_no_evaluation() -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.1))
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(60):
            target = model(torch.randn(8, 6)).max(1)[0].detach()
            optimizer.zero_grad()
            functional.mse_loss(model(torch.randn(8, 6))[:, 0], 0.9 * target).backward()
            optimizer.step()
    phases = seen.observed(EvaluationPhase)
    assert all(phase.step <= 20 for phase in phases)


def test_two_forwards_that_both_train_make_none() -> None:
    model = nn.Linear(6, 3)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(40):
            first, second = model(torch.randn(8, 6)), model(torch.randn(8, 6))
            optimizer.zero_grad()
            functional.mse_loss(first, second).backward()
            optimizer.step()
    assert seen.observed(BootstrappedTargets) == []
