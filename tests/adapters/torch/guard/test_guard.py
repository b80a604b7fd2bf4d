"""Reports about unsound steps, and the actions that a job takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.adapters.torch.guard.guarded_loops import (
    BAD,
    LOOPS,
    STEPS,
    Trained,
    batch,
    finite,
    network,
    skipped,
)
from tests.adapters.torch.watched import DEFAULT, Seen, watched
from torch import nn, optim

from mothtrap.capture.selection import streams
from mothtrap.core.config import Config
from mothtrap.core.errors import NonFiniteStepError
from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.session.snapshots import onset_needs

SKIP = Config(on_nonfinite="skip")


def test_a_gan_keeps_the_sound_half_of_an_iteration() -> None:
    torch.manual_seed(0)
    maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
    with watched(config=SKIP) as seen:
        of_maker = optim.Adam(maker.parameters(), lr=0.01)
        of_judge = optim.Adam(judge.parameters(), lr=0.01)
        for iteration in range(4):
            real = torch.randn(4, 2)
            if iteration == 2:
                real[0, 0] = math.nan
            of_judge.zero_grad()
            fake = maker(torch.randn(4, 2))
            (judge(fake.detach()).mean() - judge(real).mean()).backward()
            of_judge.step()
            of_maker.zero_grad()
            judge(maker(torch.randn(4, 2))).mean().neg().backward()
            of_maker.step()
    assert skipped(seen) == [4]
    assert seen.observed(StepGuarded)[0].optimizers == ("Adam#1",)
    assert of_maker.state[maker.weight]["step"] == 4
    assert of_judge.state[judge.weight]["step"] == 3


def test_a_loss_that_the_user_throws_away_is_not_held_against_the_next_step() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for bad in (False, True, False):
            x, y = batch(bad)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if loss.isfinite():
                optimizer.step()
            optimizer.zero_grad()
    assert skipped(seen) == []
    assert len(seen.steps()) == 2


@pytest.mark.parametrize("capture", ["default", "off"])
def test_the_norm_of_the_gradients_is_bounded(capture: str) -> None:
    config = Config(on_nonfinite="skip", max_gradient_norm=50.0)
    model = network()
    with watched(config=config, capture=DEFAULT if capture == "default" else ()) as seen:
        optimizer = optim.SGD(model.parameters(), lr=1e-3)
        for factor in (1.0, 1e4, 1.0):
            x, y = batch(False)
            optimizer.zero_grad()
            (factor * nn.functional.cross_entropy(model(x), y)).backward()
            optimizer.step()
    assert skipped(seen) == [1]
    found = seen.observed(StepGuarded)[0]
    assert (found.fault, found.action) == ("norm", "skipped")
    assert "max_gradient_norm = 50" in found.reason


@pytest.mark.parametrize("policy", ["report", "skip"])
def test_a_norm_that_capture_has_not_taken_is_taken_for_the_bound(policy: str) -> None:
    model = network()
    config = Config(on_nonfinite=policy, max_gradient_norm=1e-3)  # type: ignore[arg-type]
    with watched(config=config, capture=streams(config, onset_needs(config))) as seen:
        optimizer = optim.SGD(model.parameters(), lr=1e-3)
        nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1]).backward()
        optimizer.step()
    assert [o.fault for o in seen.observed(StepGuarded)] == ["norm"]


def test_a_bad_gradient_is_an_onset_whatever_rules_are_in_force() -> None:
    model = network()
    taken: list[str] = []
    config = Config()
    with watched(config=config, capture=streams(config, onset_needs(config))) as seen:
        seen.tracer.snapshots.take = taken.append  # type: ignore[method-assign]
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1]).backward()
        model[0].weight.grad[0, 0] = math.nan
        optimizer.step()
    assert [reason.partition(" gradients")[0] for reason in taken] == ["1 of 4"]


@pytest.mark.parametrize(("value", "kept"), [(3e36, 1), (1e15, 0)])
def test_a_finite_gradient_whose_square_overflows_is_an_onset(value: float, kept: int) -> None:
    model = network()
    taken: list[str] = []
    config = Config()
    with watched(config=config, capture=streams(config, onset_needs(config))) as seen:
        seen.tracer.snapshots.take = taken.append  # type: ignore[method-assign]
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1]).backward()
        model[0].weight.grad[0, 0] = value
        optimizer.step()
    assert ["is not finite in float32" in reason for reason in taken] == [True] * kept


def test_a_norm_above_the_bound_is_reported_and_applied_by_default() -> None:
    model = network()
    with watched(config=Config(max_gradient_norm=1e-3)) as seen:
        optimizer = optim.SGD(model.parameters(), lr=1e-3)
        x, y = batch(False)
        nn.functional.cross_entropy(model(x), y).backward()
        before = model[0].weight.detach().clone()
        optimizer.step()
    assert not torch.equal(before, model[0].weight)
    assert [(o.action, o.fault) for o in seen.observed(StepGuarded)] == [("reported", "norm")]


def test_raise_says_step_loss_parameters_and_place() -> None:
    model = network()
    with watched(config=Config(on_nonfinite="raise")) as seen:
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        for step in range(3):
            x, y = batch(step == 2)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if step < 2:
                optimizer.step()
        before = [p.detach().clone() for p in model.parameters()]
        with pytest.raises(
            FloatingPointError, match="step 2 was not applied: the loss is NaN"
        ) as e:
            optimizer.step()
    error = e.value
    assert isinstance(error, NonFiniteStepError)
    assert error.step == 2
    assert math.isnan(error.loss or 0.0)
    assert error.parameters[0] == "2.bias"
    assert error.location is not None
    assert "test_guard.py:" in error.location
    assert all(map(torch.equal, before, model.parameters()))
    assert optimizer.state[model[0].weight]["step"] == 2
    assert [o.action for o in seen.observed(StepGuarded)] == ["raised"]
    trace = e.traceback
    assert not any("guarded_steps" in str(entry.path) for entry in trace)


def test_stop_leaves_by_exit_code_3_and_applies_nothing_after_it() -> None:
    model = network()
    with watched(config=Config(on_nonfinite="stop"), may_fail=True) as seen:
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        codes = []
        for step in range(4):
            x, y = batch(step == 1)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            try:
                optimizer.step()
            except SystemExit as end:  # as a bare `except` would
                codes.append(end.code)
    assert codes == [3, 3, 3]
    assert optimizer.state[model[0].weight]["step"] == 1
    assert "stopped at step 1 (on_nonfinite = stop): the loss is NaN" in seen.said[0]


def test_an_error_inside_the_guard_is_no_error_of_the_training() -> None:
    model = network()
    with watched(config=SKIP, may_fail=True) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        seen.tracer.guard.decide = None  # type: ignore[assignment,method-assign]
        before = model[0].weight.detach().clone()
        x, y = batch(False)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert not torch.equal(before, model[0].weight)
    assert seen.failed() == ["guard"]


def test_the_state_is_kept_at_the_onset_before_anything_is_applied() -> None:
    for policy in ("report", "skip"):
        model = network()
        taken: list[tuple[str, bool]] = []

        def take(reason: str, taken: Any = taken, model: Any = model) -> None:
            taken.append((reason, finite(Trained(model))))

        with watched(config=Config(on_nonfinite=policy)) as seen:  # type: ignore[arg-type]
            seen.tracer.snapshots.take = take  # type: ignore[method-assign]
            optimizer = optim.Adam(model.parameters(), lr=0.01)
            for step in range(6):
                x, y = batch(step in (2, 3))
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        assert [healthy for _, healthy in taken] == [True]
        assert "the loss is NaN" in taken[0][0]


def test_nothing_is_blind() -> None:
    with watched(config=SKIP) as seen:
        LOOPS["adam"](False)
    assert not [blind for blind in seen.observed(Blind) if "step" in blind.what]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("policy", ["skip", "stop", "raise"])
def test_what_a_gradient_scaler_leaves_out_is_left_to_it(fused: bool, policy: str) -> None:
    model = network()
    with watched(config=Config(on_nonfinite=policy)) as seen:  # type: ignore[arg-type]
        optimizer = optim.AdamW(model.parameters(), lr=0.01, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for step in range(4):
            x, y = batch(False)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss * (math.inf if step == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen.scalars("skipped") == [0.0, 1.0, 0.0, 0.0]
    assert seen.scalars("loss_scale") == [16.0, 16.0, 8.0, 8.0]
    assert not seen.observed(StepGuarded)


def two_under_a_scaler(config: Config, overflow_at: int | None) -> Seen:
    """Each of two optimizers holds a half of the network; the second one's half overflows."""
    model = network()
    with watched(config=config) as seen:
        both = [optim.SGD(model[place].parameters(), lr=1e-3) for place in (0, 2)]
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
        for step in range(4):
            x, y = batch(False)
            scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
            if step == overflow_at:
                model[2].weight.grad[0, 0] = math.inf
            for optimizer in both:
                scaler.step(optimizer)
                optimizer.zero_grad()
            scaler.update()
    assert seen.scalars("loss_scale")[-1] == 2.0 ** (14 if overflow_at is None else 13)
    return seen


@pytest.mark.parametrize("policy", ["skip", "stop", "raise"])
def test_an_overflow_of_one_optimizer_is_left_to_the_scaler_of_both(policy: str) -> None:
    seen = two_under_a_scaler(Config(on_nonfinite=policy), overflow_at=2)  # type: ignore[arg-type]
    assert not seen.observed(StepGuarded)
    assert len(seen.steps()) == 4


def test_the_gradients_that_a_scaler_has_yet_to_unscale_are_held_to_no_bound() -> None:
    seen = two_under_a_scaler(Config(on_nonfinite="skip", max_gradient_norm=100.0), None)
    assert not seen.observed(StepGuarded)


def test_a_loss_that_is_bad_keeps_both_optimizers_of_a_scaler_from_stepping() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        both = [optim.SGD(model[place].parameters(), lr=0.1) for place in (0, 2)]
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(3):
            before = [p.detach().clone() for p in model.parameters()]
            x, y = batch(False)
            loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss + (math.inf if step == 2 else 0.0)).backward()
            for optimizer in both:
                scaler.step(optimizer)
                optimizer.zero_grad()
            scaler.update()
    assert all(map(torch.equal, before, model.parameters()))
    assert skipped(seen) == [2]
    assert seen.observed(StepGuarded)[0].optimizers == ("SGD", "SGD#1")


@pytest.mark.parametrize("fused", [False, True])
def test_the_bound_is_on_unscaled_gradients(fused: bool) -> None:
    model = network()
    with watched(config=Config(on_nonfinite="skip", max_gradient_norm=50.0)) as seen:
        optimizer = optim.AdamW(model.parameters(), lr=0.01, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
        for factor in (1.0, 1e4, 1.0):
            x, y = batch(False)
            optimizer.zero_grad()
            scaler.scale(factor * nn.functional.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert skipped(seen) == [1]
    assert optimizer.state[model[0].weight]["step"] == 2


def test_a_loss_that_is_bad_with_sound_gradients_counts_too() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            x, y = batch(False)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            (loss + (math.inf if step == 1 else 0.0)).backward()
            optimizer.step()
    assert skipped(seen) == [1]
    found = seen.observed(StepGuarded)[0]
    assert (found.fault, found.concerned, found.parameters) == ("loss", 0, ())
    assert found.reason.startswith("the loss is infinite (")


def test_a_bad_gradient_of_a_sound_loss_is_named() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            x, y = batch(False)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            if step == 1:
                model[2].weight.grad[0, 0] = math.inf
            optimizer.step()
    assert skipped(seen) == [1]
    found = seen.observed(StepGuarded)[0]
    assert (found.fault, found.concerned, found.parameters) == ("gradient", 1, ("2.weight",))
    assert found.reason.startswith("1 of 4 gradients hold NaN or infinite values; nearest")


@pytest.mark.parametrize("fused", [False, True])
def test_under_a_scaler_only_a_loss_that_is_bad_by_itself_is_an_onset(fused: bool) -> None:
    model = network()
    taken: list[str] = []
    with watched() as seen:
        seen.tracer.snapshots.take = taken.append  # type: ignore[method-assign]
        optimizer = optim.AdamW(model.parameters(), lr=0.01, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for step in range(6):
            x, y = batch(step == 4)
            optimizer.zero_grad()
            loss = scaler.scale(nn.functional.cross_entropy(model(x), y))
            loss.backward()
            if step == 1:  # an overflow of the kind that scalers detect
                model[0].weight.grad[0, 0] = math.inf
            scaler.step(optimizer)
            scaler.update()
    assert len(taken) == 1
    assert taken[0].startswith("the loss is NaN")
    assert seen.scalars("skipped") == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def test_a_closure_that_returns_nothing_is_judged_by_its_backward() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):

            def closure(bad: bool = step == 1) -> None:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(batch(False)[0]), batch(False)[1])
                (loss + (math.inf if bad else 0.0)).backward()

            optimizer.step(closure)  # type: ignore[arg-type]
    assert skipped(seen) == [1]


def test_in_the_very_first_step_too_all_optimizers_step_or_none() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        both = [optim.SGD([p], lr=0.1) for p in (model[0].weight, model[2].weight)]
        before = [p.detach().clone() for p in model.parameters()]
        x, y = batch(False)
        nn.functional.cross_entropy(model(x), y).backward()
        model[2].weight.grad[0, 0] = math.nan
        for optimizer in both:
            optimizer.step()
    assert all(map(torch.equal, before, model.parameters()))
    assert skipped(seen) == [0]
    assert seen.observed(StepGuarded)[0].optimizers == ("SGD", "SGD#1")
    assert not seen.observed(StepGuarded)[0].applied


def test_a_script_that_catches_the_error_goes_on_as_if_the_step_had_been_left_out() -> None:
    model = network()
    with watched(config=Config(on_nonfinite="raise")) as seen:
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        raised = []
        for step in range(STEPS):
            x, y = batch(step in BAD)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            try:
                optimizer.step()
            except FloatingPointError as error:
                raised.append(str(error).split()[1])
    assert raised == [str(step) for step in BAD]
    assert skipped(seen) == list(BAD)
    assert finite(Trained(model))
    assert optimizer.state[model[0].weight]["step"] == STEPS - len(BAD)


def test_one_line_is_printed_for_each_of_the_first_three_onsets() -> None:
    model = network()
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        for step in range(10):
            x, y = batch(step in (0, 1, 3, 5, 6, 8))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    lines = [line for line in seen.said if "was not applied" in line]
    assert [line.split()[2] for line in lines] == ["0", "3", "5"]
    assert "the verdict counts further steps" in lines[-1]
    assert skipped(seen) == [0, 1, 3, 5, 6, 8]


def test_all_bad_gradients_are_counted_and_four_are_named() -> None:
    model = nn.Sequential(*[nn.Linear(4, 4, bias=False) for _ in range(9)])
    with watched(config=SKIP) as seen:
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        model(torch.full((2, 4), math.nan)).sum().backward()
        optimizer.step()
    [fact] = seen.observed(StepGuarded)
    assert fact.concerned == 9
    assert fact.parameters == tuple(f"{n}.weight" for n in (8, 7, 6, 5))
