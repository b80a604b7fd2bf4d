from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import data
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.findings import Severity
from mothtrap.rules.constant_prediction import constant_prediction


def fitted(**more) -> EstimatorFitted:
    told = {"step": 9, "fit": "a", "estimator": "MLPClassifier", "call": "fit", "rows": 500}
    return EstimatorFitted(**{**told, "columns": 6, "judged": 500, "location": "a.py:3"} | more)


def check(*parts):
    return constant_prediction().check(window(*parts))


def test_one_class_for_every_row_is_a_warning() -> None:
    [finding] = check(fitted(label_counts=(350, 150), predicted_counts=(500, 0)))
    assert finding.severity is Severity.WARNING
    assert "class 0 for all 500 training rows" in finding.message


def test_scaling_is_advised_first_only_if_the_scales_are_unknown() -> None:
    parts = [fitted(label_counts=(350, 150), predicted_counts=(500, 0))]
    [unknown], [known] = check(*parts), check(*parts, data(0, np.eye(4)))
    assert unknown.fixes[0].startswith("Scale the columns")
    assert known.fixes[0].startswith("Weaken the regularization")


def test_an_extreme_parameter_is_named() -> None:
    counts = {"label_counts": (350, 150), "predicted_counts": (500, 0)}
    [finding] = check(fitted(estimator="LogisticRegression", parameters={"C": 1e-6}, **counts))
    assert "C is 1e-06" in finding.message
    assert finding.fixes == ("Raise `C` from 1e-06; the default is 1.",)
    [finding] = check(fitted(estimator="SVC", parameters={"C": 1.0, "gamma": 100.0}, **counts))
    assert finding.fixes == ("Lower `gamma` from 100.",)
    [finding] = check(fitted(parameters={"C": 1.0, "gamma": 0.1, "alpha": 1e-4}, **counts))
    assert finding.fixes[0].startswith("Scale the columns")


def test_numbers_that_hardly_differ_are_a_warning() -> None:
    [finding] = check(fitted(label_std=2.0, predicted_std=0.001))
    assert "the standard deviation of the predictions is 0.001" in finding.message


@pytest.mark.parametrize(
    "more",
    [
        {"label_counts": (350, 150), "predicted_counts": (480, 20)},
        {"label_counts": (490, 10), "predicted_counts": (500, 0)},
        {"label_std": 2.0, "predicted_std": 0.5},
        {"label_std": 0.0, "predicted_std": 0.0},
        {},
    ],
)
def test_stays_quiet(more) -> None:
    assert check(fitted(**more)) == []


def test_the_latest_of_partial_fits_counts() -> None:
    first = fitted(label_counts=(350, 150), predicted_counts=(500, 0))
    assert check(first, fitted(label_counts=(350, 150), predicted_counts=(360, 140))) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(fitted(judged=20))
