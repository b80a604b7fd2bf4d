"""Learned invariants hold in the runs they were learned from, and their bounds leave a margin."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from tests.rules.windows import gradients, loss, noise, series, window

from mothtrap.core.breaches import judge
from mothtrap.core.window import Matrix, Series, Window
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.monitor.learning import LEARNED, MARGIN, MIN_LOOKS, Training, learn

STEPS = np.arange(200)
FLAT = np.ones(200)
PATIENT = " (exceptions last fewer than 20 steps)"


def losses(seed: int = 0, low: float = 0.1) -> Series:
    return loss(low + 2.0 * np.exp(-STEPS / 40) + np.abs(noise(200, scale=0.01, seed=seed)))


def norms(seed: int = 0, *, absent: Sequence[tuple[int, str]] = (), **more: np.ndarray) -> Matrix:
    by_name = {name: np.where(seed == STEPS % 7, 1.2, 1.0) for name in ("a", "b")} | more
    return gradients("l2", by_name, absent=absent)


def updates(by_name: dict[str, np.ndarray]) -> Matrix:
    return dataclasses.replace(gradients("update_ratio", by_name), kind="weight")


def learned(*windows: Window, runs: int | None = None) -> list[str]:
    """Return the learned sentences; each window is its own run unless `runs` is 1."""
    names = ["x"] * len(windows) if runs == 1 else [str(n) for n in range(len(windows))]
    found = learn([Training(name, seen) for name, seen in zip(names, windows, strict=True)])
    for invariant in found:
        assert all(judge(invariant, seen) is None for seen in windows), invariant.sentence
    return [invariant.sentence + invariant.exceptions for invariant in found]


def rates(*values: np.ndarray) -> list[str]:
    found = learned(*(window(series("lr", each)) for each in values))
    return [s.removeprefix("the learning rate ") for s in found if "of Adam" in s]


def test_of_two_runs_that_are_alike() -> None:
    found = learned(
        *(window(losses(n), norms(n), series("lr", FLAT), series("micro_batches", 2 * FLAT))
          for n in range(2))
    )  # fmt: skip
    assert found == [
        "the number of backward passes in a step is always 2",
        "the learning rate is at least 0",
        "the learning rate of Adam is at least 0.333 and at most 3",
        "the learning rate of Adam never changes",
        "the loss is at least 0 and at most 21",
        f"the loss has a value at each step{PATIENT}",
        f"each of 2 gradients has a value at each step{PATIENT}",
        "the norm of every gradient is at most 12",
        f"the norm of every gradient is above 0{PATIENT}",
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (1.0 - STEPS / 400, ["of Adam is at most 3", "of Adam changes within 4 steps",
                             "of Adam never rises"]),
        (np.minimum(STEPS, 20) / 20, ["of Adam is at most 3", "of Adam never falls"]),
        (0.5 ** (STEPS // 30), ["of Adam is at most 3", "of Adam changes within 60 steps",
                                "of Adam never rises"]),
        (1.0 + (STEPS % 40), ["of Adam is at most 120", "of Adam changes within 4 steps"]),
        (np.where(STEPS < 100, 1.0, 0.1), ["of Adam is at most 3", "of Adam never rises"]),
        (FLAT, ["of Adam is at least 0.333 and at most 3", "of Adam never changes"]),
    ],
    ids=["linear", "warm-up", "staircase", "restarts", "one drop", "constant"],
)  # fmt: skip
def test_of_schedules_of_learning_rates(values: np.ndarray, expected: list[str]) -> None:
    assert sorted(rates(values, values)) == sorted(expected)


def test_a_rate_that_is_another_in_each_run_bounds_only() -> None:
    assert rates(FLAT, 2 * FLAT) == ["of Adam is at most 6", "of Adam never changes"]


def test_of_one_run_bounds_are_wider_also_with_many_workers() -> None:
    seen = window(losses())
    [alone, *_] = [s for s in learned(seen, seen, runs=1) if "at most" in s]
    [twice, *_] = [s for s in learned(seen, seen) if "at most" in s]
    assert (alone, twice) == (
        "the loss is at least 0 and at most 210",
        "the loss is at least 0 and at most 21",
    )


def test_what_the_runs_disagree_about_is_left_out() -> None:
    other = window(loss(losses().values_S * 2 * MARGIN))
    found = learned(window(losses()), other)
    assert "the loss is at least 0" in found
    assert not [s for s in found if "at most" in s]
    assert "the loss is finite" in learned(window(losses(low=-5.0)), window(losses()))


def test_a_gradient_is_due_at_the_steps_of_its_optimizer() -> None:
    odd, even = STEPS[1::2], STEPS[::2]
    absent = [(int(s), "a") for s in odd] + [(int(s), "b") for s in even]
    seen = window(
        norms(absent=absent),
        series("lr", FLAT[:100], of="G", steps=even),
        series("lr", FLAT[:100], of="D", steps=odd),
    )
    found = [s for s in learned(seen, seen) if "has a value" in s]
    assert found == [
        f"the gradient a has a value at each step of G{PATIENT}",
        f"the gradient b has a value at each step of D{PATIENT}",
    ]


def test_a_gradient_that_is_now_and_then_absent_need_not_be_there() -> None:
    seen = window(norms(absent=[(50, "a")]), series("lr", FLAT))
    found = [s for s in learned(seen, seen) if "has a value" in s]
    assert found == [f"the gradient b has a value at each step{PATIENT}"]


def test_what_comes_near_zero_may_become_zero() -> None:
    seen = window(norms(dying=np.exp(-STEPS / 10)))
    found = [s for s in learned(seen, seen) if "norm" in s]
    assert found == [
        "the norm of every gradient is at most 12",
        f"the norm of each of 2 gradients is above 0{PATIENT}",
    ]


def test_weights_that_never_move_are_told_apart() -> None:
    seen = window(updates({"head": FLAT / 100, "backbone": FLAT * 0}))
    assert learned(seen, seen) == [
        "the relative change in a step of every weight is at most 0.1",
        f"the relative change in a step of the weight head is above 0{PATIENT}",
        "the relative change in a step of the weight backbone is always 0",
    ]


def test_of_different_programs_only_what_names_no_tensor() -> None:
    one = window(losses(), norms(), series("lr", FLAT))
    other = window(losses(), gradients("l2", {"c": FLAT}), series("lr", FLAT, of="SGD"))
    assert learned(one, other) == [
        "the learning rate is at least 0",
        "the loss is at least 0 and at most 21",
        f"the loss has a value at each step{PATIENT}",
        "the norm of every gradient is at most 12",
    ]


def test_nothing_is_learned_of_what_was_hardly_seen() -> None:
    few = updates({"head": FLAT[: MIN_LOOKS - 1]})
    assert learned(window(few, steps=200), window(few, steps=200)) == []
    assert learned(window(losses()), window(steps=200)) == []


def test_learns_from_what_other_rules_need_anyway() -> None:
    def asked(needs: object) -> set[tuple[str, str]]:
        return {(kind, name) for need in needs for kind in need.kinds for name in need.statistics}

    default = asked(need for rule in rule_classes() for need in rule().needs)
    assert asked(LEARNED) <= default


def test_what_is_not_finite_is_no_example() -> None:
    infinite = np.where(STEPS == 50, np.inf, FLAT)
    seen = window(loss(infinite), gradients("l2", {"a": infinite}), series("lr", infinite))
    assert learned(seen, seen) == [
        f"the loss has a value at each step{PATIENT}",
        f"the gradient a has a value at each step{PATIENT}",
    ]
