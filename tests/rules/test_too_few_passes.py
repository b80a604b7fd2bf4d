from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.findings import Severity
from mothtrap.rules.too_few_passes import too_few_passes


def fitted(**more) -> EstimatorFitted:
    told = {"step": 9, "fit": "a", "estimator": "MLPClassifier", "call": "fit", "rows": 500}
    return EstimatorFitted(**{**told, "columns": 6, "judged": 500, "location": "a.py:3"} | more)


def check(*parts):
    return too_few_passes().check(window(*parts))


FALLS = tuple(0.9**n for n in range(30))
LEVEL = tuple(0.5 - 1e-5 * n for n in range(30))


def test_a_loss_that_still_falls_after_the_last_pass_is_a_warning() -> None:
    [finding] = check(fitted(exhausted=True, max_iterations=30, loss_curve=FALLS))
    assert (finding.severity, finding.location) == (Severity.WARNING, "a.py:3")
    assert "in the last 10" in finding.message


def test_a_loss_that_hardly_falls_or_is_not_known_is_a_note() -> None:
    for curve in (LEVEL, ()):
        [finding] = check(fitted(exhausted=True, max_iterations=30, loss_curve=curve))
        assert finding.severity is Severity.INFO


def test_a_network_whose_loss_stands_still_is_a_warning() -> None:
    still = {"max_iterations": 200, "iterations": 8, "loss_curve": (0.69,) * 8}
    [finding] = check(fitted(**still))
    assert "hardly changed" in finding.message
    # a solver has converged, and its penalty leaves the loss high
    assert check(fitted(estimator="LogisticRegression", **still)) == []


def test_stays_quiet_where_the_fit_ended_by_itself() -> None:
    assert check(fitted(max_iterations=200, iterations=31, loss_curve=FALLS)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(fitted(call="partial_fit"))
    with pytest.raises(NotApplicable):
        check(fitted())
