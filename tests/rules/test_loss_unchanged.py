from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.loss_unchanged import LossUnchanged


def call(classes: int | None) -> LossCall:
    return LossCall(step=0, operation="cross_entropy", series=LOSS, classes=classes, location=LOSS)


def check(values: np.ndarray, *facts: Fact, **options: int) -> list[Finding]:
    return LossUnchanged().check(window(loss(values, **options), *facts))


def test_a_class_loss_over_one_output_is_an_error() -> None:
    [finding] = check(np.zeros(8), call(1))
    assert (finding.severity, finding.step, finding.location) == (Severity.ERROR, 0, LOSS)
    assert "cross_entropy has only one class" in finding.message
    assert finding.fixes[0].startswith("Use two outputs or more")


def test_a_loss_that_never_changes_is_a_warning() -> None:
    [finding] = check(np.full(40, 0.693147), call(2))
    assert finding.severity is Severity.WARNING
    assert "exactly 0.693147 in all 40 steps" in finding.message


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.full(20, 0.7), id="too early"),
        pytest.param(np.r_[np.full(39, 0.7), np.nextafter(0.7, 1)], id="another last digit"),
        pytest.param(np.full(40, np.nan), id="no number"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values, call(2)) == []


def test_a_loss_that_never_changes_in_hundreds_of_steps_is_an_error() -> None:
    [finding] = LossUnchanged().check(window(loss(np.full(250, 1.0))))
    assert finding.severity is Severity.ERROR
    assert "equals its margin" in finding.fixes[0]


def test_what_left_the_window_counts() -> None:
    assert check(np.full(40, 0.7), call(2), total=80, early=[0.9, 0.8]) == []


def test_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData):
        check(np.zeros(3), call(1))
