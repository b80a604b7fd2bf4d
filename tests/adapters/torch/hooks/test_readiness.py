"""Facts about events that a job never had are no evidence of its health."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import mothtrap
from mothtrap.adapters.torch.hooks.readiness import (
    OF_BACKWARDS,
    OF_FORWARDS,
    OF_OPTIMIZERS,
    Readiness,
)
from mothtrap.adapters.torch.hooks.reports import IN_EACH_STEP, IN_FULL_STEPS
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.findings import RuleState
from mothtrap.monitor.coverage import EXEMPT

STEPS = 40
OF_LOSSES = {
    *("loss_diverging", "loss_oscillating", "loss_spike", "loss_unchanged", "nonfinite_loss"),
    *("distances_as_scores", "likelihood_minimized", "mirrored_targets", "overlap_of_scores"),
    *("own_row_competes", "penalty_per_pixel", "shifted_targets", "zero_slope"),
    "soft_targets_of_other_rows",
}


def test_a_job_that_does_everything_stands_ready_for_all() -> None:
    ready = Readiness()
    ready.saw(forwards=True, backwards=True, optimizers=True)
    assert (ready.in_each_step, ready.in_full_steps) == (IN_EACH_STEP, IN_FULL_STEPS)
    assert not ready.waits


def test_facts_wait_for_what_they_are_about() -> None:
    ready = Readiness()
    ready.saw(forwards=False, backwards=False, optimizers=False)
    assert {LossSeries, ScriptFailed} <= set(ready.in_each_step)
    facts = {*ready.in_each_step, *ready.in_full_steps}
    assert not facts & (OF_FORWARDS | OF_BACKWARDS | OF_OPTIMIZERS)
    assert ready.waits
    ready.saw(forwards=True, backwards=False, optimizers=False)
    assert NonfiniteModule in ready.in_each_step
    assert ready.waits


def by_hand(dbg: mothtrap.Watch, _: nn.Module) -> None:
    for step in range(STEPS):
        dbg.step(loss=1.0 / (step + 1))


def of_tensors(dbg: mothtrap.Watch, _: nn.Module) -> None:
    """Train a model that is not a module and therefore has no observable forward."""
    weight = torch.ones(3, requires_grad=True)
    for _ in range(STEPS):
        loss = (weight**2).sum()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
        dbg.step(loss=loss)


def evaluated(dbg: mothtrap.Watch, model: nn.Module) -> None:
    """Evaluate with losses from elsewhere; the model is never called with a graph."""
    for step in range(STEPS):
        mothtrap.log("score", step)
        dbg.step(loss=1.0 / (step + 1), scalars={"accuracy": 0.5})
    del model


@pytest.mark.parametrize("train", [by_hand, of_tensors, evaluated])
def test_a_loss_alone_makes_no_rule_ok_that_needs_more(
    tmp_path: Path, train: Callable[[mothtrap.Watch, nn.Module], None]
) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    with mothtrap.watch(model, runs_dir=str(tmp_path)) as dbg:
        train(dbg, model)
    run = mothtrap.open_run(str(dbg.path))
    assert run.steps == STEPS
    states = {status.name: status for status in run.rules}
    fine = {name for name, status in states.items() if status.state is RuleState.OK}
    assert fine - EXEMPT - OF_LOSSES == set()
    blind = states["nonfinite_activation"]
    assert blind.state is RuleState.NOT_ENOUGH_DATA
    assert blind.reason == '"nonfinite module" was not checked'
