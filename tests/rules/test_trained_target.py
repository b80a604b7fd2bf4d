from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.trained_target import trained_target


def check(*, trained: int = 0, idle: int = 0, advantages: int = 0) -> list[Finding]:
    seen = TrainedTarget(
        step=11,
        looks=5,
        trained=trained,
        idle=idle,
        advantages=advantages,
        location="train.py:7",
    )
    return trained_target().check(window(loss([1.0] * 20), seen))


def test_a_target_that_the_optimizer_changes_is_a_warning() -> None:
    [finding] = check(trained=5)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:7")
    assert "has a gradient in 5 of 5 backward passes (limit 4)" in finding.message
    assert "also moves the target" in finding.message


def test_a_target_of_parameters_that_nothing_steps_is_a_note() -> None:
    [finding] = check(idle=5)
    assert finding.severity is Severity.INFO
    assert "only costs time and memory" in finding.message


def test_an_advantage_that_the_optimizer_changes_is_a_warning() -> None:
    [finding] = check(advantages=5)
    assert finding.severity is Severity.WARNING
    assert "the advantage in the policy loss has a gradient" in finding.message
    assert "values.detach()" in finding.fixes[0]


def test_targets_of_a_few_looks_are_no_finding() -> None:
    assert check(trained=2, idle=3) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 4 steps, saw 0"):
        trained_target().check(window())
