from __future__ import annotations

import math

import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import FiniteOutputs, FirstBadOperation
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.nonfinite_loss import NonfiniteLoss

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(("value", "word"), [(NAN, "NaN"), (INF, "infinite"), (-INF, "minus")])
def test_fires_at_the_first_step_that_is_not_finite(value: float, word: str) -> None:
    [finding] = NonfiniteLoss().check(window(loss([1.0, 0.5, value, NAN, NAN])))
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.last_step, finding.count) == (2, 4, 3)
    assert finding.location == LOSS
    assert word in finding.message
    assert "0.5" in finding.message


def test_says_when_the_number_broke_behind_the_model() -> None:
    seen = FiniteOutputs(step=2, modules=4)
    [finding] = NonfiniteLoss().check(window(loss([1.0, 0.5, NAN]), seen))
    assert "between the model and the loss" in finding.message
    [other] = NonfiniteLoss().check(window(loss([1.0, NAN, NAN]), seen))
    assert "between the model" not in other.message


def test_names_the_operation_that_made_it_and_what_it_was_given() -> None:
    seen = FirstBadOperation(
        step=2, operation="torch.log", module="head", inputs=("input from 0 to 3.2",)
    )
    [finding] = NonfiniteLoss().check(window(loss([1.0, 0.5, NAN]), seen))
    assert "torch.log in head" in finding.message
    assert "input from 0 to 3.2" in finding.message
    unsure = FirstBadOperation(step=2, operation="torch.mean", since="torch.add")
    [finding] = NonfiniteLoss().check(window(loss([1.0, 0.5, NAN]), unsure))
    assert "between torch.add and torch.mean, in one of their results or inputs" in finding.message
    [other] = NonfiniteLoss().check(window(loss([1.0, NAN, NAN]), seen))
    assert "torch.log" not in other.message


@pytest.mark.parametrize(
    ("operation", "advice"),
    [("torch.log", "above 0"), ("div", "divisor"), ("torch.exp", "logsumexp")],
)
def test_advice_is_on_the_operation_where_it_is_known(operation: str, advice: str) -> None:
    seen = FirstBadOperation(step=2, operation=operation)
    [finding] = NonfiniteLoss().check(window(loss([1.0, 0.5, NAN]), seen))
    assert advice in finding.fixes[0]
    assert len(finding.fixes[0]) <= 125
    unsure = FirstBadOperation(step=2, operation=operation, since="torch.add")
    [other] = NonfiniteLoss().check(window(loss([1.0, 0.5, NAN]), unsure))
    assert advice not in other.fixes[0]


def test_counts_no_step_twice_when_two_losses_break() -> None:
    [finding] = NonfiniteLoss().check(
        window(loss([1.0, NAN, NAN], of="a.py:1"), loss([1.0, 1.0, NAN], of="a.py:2"))
    )
    assert (finding.step, finding.count, finding.location) == (1, 2, "a.py:1")


def test_a_step_skipped_by_loss_scaling_is_a_warning() -> None:
    [finding] = NonfiniteLoss().check(window(loss([INF, 1.0, 0.9]), skipped=[0]))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)


def test_the_first_applied_step_counts_and_not_the_skipped_one_before() -> None:
    [finding] = NonfiniteLoss().check(window(loss([INF, 1.0, NAN]), skipped=[0]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 2)


def test_an_evaluation_loss_is_a_warning_of_its_own() -> None:
    evaluation = loss([NAN], steps=[2], mode=Mode.EVAL)
    [finding] = NonfiniteLoss().check(window(loss([1.0, 1.0, 1.0]), evaluation))
    assert (finding.severity, finding.mode, finding.step) == (Severity.WARNING, "eval", 2)


def test_stays_quiet_on_huge_and_negative_losses() -> None:
    assert NonfiniteLoss().check(window(loss([1e308, -1e308, 0.0]))) == []


def test_cannot_judge_without_a_loss() -> None:
    with pytest.raises(NotEnoughData, match="no loss"):
        NonfiniteLoss().check(window(steps=3))


@pytest.mark.parametrize(
    ("source", "advice"),
    [("relu", "softplus"), ("softmax", "log_softmax"), ("sigmoid", "logsigmoid"), ("mul", "clip")],
)
def test_advice_is_on_what_made_the_input(source: str, advice: str) -> None:
    seen = FirstBadOperation(step=2, operation="torch.log", source=source)
    [finding] = NonfiniteLoss().check(window(loss([1.0, 1.0, math.inf]), seen))
    [fix] = finding.fixes
    assert advice in fix
