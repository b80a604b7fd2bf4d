"""Findings, facts, texts and exceptions of unsound steps are the same in every framework."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mothtrap.core.config import Config
from mothtrap.core.errors import NonFiniteStepError
from mothtrap.tracing import guard
from mothtrap.tracing.guard import GuardPolicy, bad_gradients, bad_loss, first_bad, large_norm

NINE = [f"layer{n}.weight" for n in reversed(range(9))]


def policy(name: str, **settings: Any) -> tuple[GuardPolicy, list[str]]:
    said: list[str] = []
    return GuardPolicy(Config(on_nonfinite=name, **settings), said.append), said


@pytest.mark.parametrize(
    ("value", "word"),
    [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "minus infinity")],
)
def test_a_bad_loss_is_named_with_its_line(value: float, word: str) -> None:
    fault = bad_loss(value, "train.py:12", NINE)
    assert (fault.kind, fault.reason) == ("loss", f"the loss is {word} (train.py:12)")
    assert (fault.concerned, fault.parameters) == (9, tuple(NINE[:4]))


def test_the_first_bad_loss_of_a_step_counts() -> None:
    assert first_bad([(1.0, "a"), (math.inf, "b"), (math.nan, "c")]) == (math.inf, "b")
    assert first_bad([(1.0, None)]) is None


def test_all_bad_gradients_are_counted_and_four_named() -> None:
    fault = bad_gradients(NINE, 12, 0.5, "train.py:12")
    assert fault.reason == (
        "9 of 12 gradients hold NaN or infinite values; nearest to the loss is layer8.weight"
    )
    assert (fault.concerned, len(fault.parameters), fault.loss) == (9, 4, 0.5)
    unordered = bad_gradients(NINE, 12, None, None, ordered=False)
    assert unordered.reason == "9 of 12 gradients hold NaN or infinite values"


def test_a_large_norm_is_named_with_its_bound() -> None:
    fault = large_norm(123.456, 100.0, 0.5, None)
    assert fault.reason == "the gradient norm is 123.5 (max_gradient_norm = 100)"
    assert fault.kind == "norm"


def test_one_line_is_printed_for_each_of_the_first_three_onsets() -> None:
    skip, said = policy("skip")
    for step in (2, 3, 4, 7, 9, 10, 20):
        fault = bad_loss(math.nan, None)
        skip.announce(fault, step, onset=skip.found(step))
    assert [line.split()[2] for line in said] == ["2", "7", "9"]
    assert said[-1].endswith("; the verdict counts further steps")


def test_a_call_of_several_steps_goes_on_from_the_one_before() -> None:
    skip, _ = policy("skip")
    assert skip.found(9, 5)
    assert not skip.found(14, 5)
    assert skip.found(24, 5)


def test_a_fault_of_another_worker_is_not_printed() -> None:
    skip, said = policy("skip")
    skip.announce(guard.ELSEWHERE, 3, onset=True)
    assert not said


def test_stop_ends_the_job_and_says_at_which_step() -> None:
    stop, said = policy("stop")
    fault = bad_loss(math.nan, "train.py:3")
    stop.announce(fault, 5, onset=False)
    assert said == [
        "mothtrap: stopped at step 5 (on_nonfinite = stop): the loss is NaN (train.py:3); "
        "no part of this step was applied"
    ]
    ending = stop.ending(fault, 5)
    assert isinstance(ending, SystemExit)
    assert ending.code == 3


def test_raise_names_the_parameters_concerned() -> None:
    raising, said = policy("raise")
    error = raising.ending(bad_gradients(NINE, 9, 0.5, "train.py:3"), 5)
    assert isinstance(error, NonFiniteStepError)
    assert "affected parameters: layer8.weight" in str(error)
    assert "and 5 more; the policy is on_nonfinite = raise" in str(error)
    assert (error.step, error.loss, error.location) == (5, 0.5, "train.py:3")
    assert not said


@pytest.mark.parametrize(
    ("name", "action"),
    [("report", "reported"), ("skip", "skipped"), ("stop", "stopped"), ("raise", "raised")],
)
def test_the_fact_says_what_was_done(name: str, action: str) -> None:
    fact = policy(name)[0].fact(bad_gradients(NINE, 9, None, None), 4, ["Adam"], applied=["SGD"])
    assert (fact.step, fact.action, fact.fault, fact.concerned) == (4, action, "gradient", 9)
    assert fact.applied == (() if name == "report" else ("SGD",))


def test_a_step_that_was_applied_all_the_same_is_reported() -> None:
    skip, _ = policy("skip")
    fact = skip.fact(bad_loss(math.nan, None), 4, [], action="reported")
    assert fact.action == "reported"


def test_without_a_bound_no_norm_is_too_large() -> None:
    assert policy("skip")[0].limit == math.inf
    assert policy("skip", max_gradient_norm=2.0)[0].limit == 2.0
