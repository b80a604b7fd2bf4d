from __future__ import annotations

import pytest
from tests.rules.windows import series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import GradientsCleared
from mothtrap.core.findings import Severity
from mothtrap.core.records import GradientState
from mothtrap.rules.step_without_backward import StepWithoutBackward

FRESH, SAME, NONE = GradientState.FRESH, GradientState.UNCHANGED, GradientState.ABSENT


def state(values: list[float], of: str = "Adam", steps: list[int] | None = None):
    return series("gradient_state", values, of=of, steps=steps)


def test_fires_at_once_when_the_same_gradients_are_applied_again() -> None:
    [finding] = StepWithoutBackward().check(window(state([FRESH, FRESH, SAME])))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 2, 1)
    assert "the same gradients again" in finding.message


def test_a_loss_of_other_parameters_is_named() -> None:
    of_both = [
        series("loss", [1.0, 0.9], of=name, steps=steps, optimizers=("Adam",), location=place)
        for name, steps, place in (("G", [0, 2], "train.py:5"), ("D", [1, 3], "train.py:9"))
    ]
    [finding] = StepWithoutBackward().check(window(state([FRESH, SAME] * 2), *of_both))
    assert "of the loss at train.py:9, computed no gradient for its parameters" in finding.message
    assert finding.location == "train.py:9"


def test_fires_after_three_steps_without_gradients() -> None:
    [finding] = StepWithoutBackward().check(window(state([FRESH, NONE, NONE, NONE])))
    assert (finding.severity, finding.step, finding.count) == (Severity.ERROR, 1, 3)
    assert "has no gradients at all" in finding.message


def test_gradients_that_were_cleared_before_the_step_are_told_as_such() -> None:
    cleared = GradientsCleared(step=2, optimizer="Adam", location="train.py:9")
    [finding] = StepWithoutBackward().check(window(state([FRESH, FRESH, *[NONE] * 3]), cleared))
    assert (finding.step, finding.location) == (2, "train.py:9")
    assert "they were cleared between backward and step" in finding.message
    assert finding.fixes[0].startswith("Call `zero_grad()` before `backward()`")


@pytest.mark.parametrize(
    "elsewhere",
    [
        GradientsCleared(step=2, optimizer="SGD", location="train.py:9"),
        GradientsCleared(step=0, optimizer="Adam", location="train.py:9"),
    ],
    ids=["of another optimizer", "in another step"],
)
def test_gradients_that_were_cleared_elsewhere_explain_nothing(elsewhere: GradientsCleared) -> None:
    states = state([NONE, FRESH, *[NONE] * 3])
    [finding] = StepWithoutBackward().check(window(states, elsewhere))
    assert "has no gradients at all" in finding.message
    assert not any("zero_grad" in fix for fix in finding.fixes[:1])


def test_stays_quiet_on_a_priming_step() -> None:
    assert StepWithoutBackward().check(window(state([NONE, FRESH, FRESH, NONE, NONE]))) == []


def test_only_warns_when_another_optimizer_had_gradients() -> None:
    idle, busy = state([NONE] * 4, of="G"), state([FRESH] * 4, of="D")
    [finding] = StepWithoutBackward().check(window(idle, busy))
    assert finding.severity is Severity.WARNING
    assert finding.evidence["optimizer"] == "G"


def test_stays_quiet_on_steps_that_loss_scaling_skipped() -> None:
    assert StepWithoutBackward().check(window(state([SAME, SAME, FRESH]), skipped=[0, 1])) == []


def test_cannot_judge_what_was_not_watched() -> None:
    with pytest.raises(NotEnoughData):
        StepWithoutBackward().check(window(steps=3))
