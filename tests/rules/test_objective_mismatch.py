from __future__ import annotations

import pytest
from tests.rules.boosting import FIT, began, columns, table
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.findings import Severity
from mothtrap.rules.objective_mismatch import objective_mismatch


def check(*parts, rule: objective_mismatch = objective_mismatch()):  # noqa: B008
    return rule.check(window(*parts))


NUMBERS = began(task="regression", objective="reg:squarederror")
CLASSES = began(task="classes", objective="multi:softprob", classes=3)


def labels(low: float, high: float, values: tuple[int, ...] = (), distinct: int | None = None):
    return table(
        counts=None,
        label_min=low,
        label_max=high,
        label_distinct=distinct if distinct is not None else len(values) or None,
        value_counts=values,
    )


@pytest.mark.parametrize(
    ("fit", "seen", "words"),
    [
        pytest.param(NUMBERS, labels(1, 2, (700, 300)), "two classes", id="two values"),
        pytest.param(NUMBERS, labels(0, 2, (330, 340, 330)), "3 classes", id="three values"),
        pytest.param(
            CLASSES, labels(18, 90, distinct=70), "numbers, not classes", id="ages as classes"
        ),
        pytest.param(
            began(task="classes", classes=10), labels(0, 2, (3, 3, 3)), "10 classes", id="too many"
        ),
        pytest.param(
            began(task="two_classes"), labels(0, 2, (3, 3, 3)), "3 whole numbers", id="three of two"
        ),
        pytest.param(
            began(task="two_classes"), labels(-0.5, 7.5), "fractions", id="prices as classes"
        ),
    ],
)
def test_fires(fit, seen, words: str) -> None:
    [finding] = check(fit, seen)
    assert finding.severity is Severity.WARNING
    assert words in finding.message
    assert finding.fixes


def test_a_regression_on_zeros_and_ones_is_a_note() -> None:
    [finding] = check(NUMBERS, labels(0, 1, (700, 300)))
    assert finding.severity is Severity.INFO
    assert "two classes: 0 and 1" in finding.message


def test_bounds_that_are_swapped_are_an_error() -> None:
    fit = began(task="", objective="survival:aft")
    [finding] = check(fit, table(counts=None, reversed_bounds=900))
    assert finding.severity is Severity.ERROR
    assert "in 900 of" in finding.message
    with pytest.raises(NotApplicable):
        check(fit, table(counts=None))


@pytest.mark.parametrize(
    ("fit", "seen"),
    [
        pytest.param(NUMBERS, labels(0, 400.5), id="numbers"),
        pytest.param(NUMBERS, labels(0, 6, (500, 300, 120, 50, 20, 8, 2)), id="counts"),
        pytest.param(NUMBERS, labels(1, 5, (200, 200, 200, 200, 200)), id="grades from 1 on"),
        pytest.param(CLASSES, labels(0, 2, (300, 300, 300)), id="classes"),
        pytest.param(began(task="two_classes"), labels(0, 1, (500, 500)), id="two classes"),
        pytest.param(began(task="two_classes"), labels(0.1, 0.9), id="soft labels"),
    ],
)
def test_stays_quiet(fit, seen) -> None:
    assert check(fit, seen) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="neither a classification"):
        check(began(task="ranking"), labels(0, 1, (5, 5)))
    with pytest.raises(NotEnoughData):
        check(NUMBERS)


def classifier(classes: int, rows: int) -> EstimatorFitted:
    counts = tuple(rows // classes + (n < rows % classes) for n in range(classes))
    return EstimatorFitted(
        step=0,
        fit=FIT,
        estimator="LogisticRegression",
        call="fit",
        rows=rows,
        columns=8,
        label_counts=counts,
        task="classes",
    )


def test_a_classifier_of_quantities_is_a_warning() -> None:
    given = (classifier(200, 400), table(counts=None, label_distinct=200), columns(trend=0.6))
    [finding] = check(*given)
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "LogisticRegression is a classifier, but its 200 classes have 2.0 rows each, and their "
        "numbers rise or fall with a column (correlation 0.60): they are quantities"
    )


@pytest.mark.parametrize(
    ("classes", "rows", "trend"),
    [
        pytest.param(200, 400, 0.2, id="names of persons"),
        pytest.param(60, 120, 0.5, id="a correlation by chance"),
        pytest.param(200, 4000, 0.6, id="many rows of each"),
        pytest.param(10, 90, 0.9, id="few classes"),
        pytest.param(200, 400, None, id="unknown"),
    ],
)
def test_many_classes_may_be_classes(classes: int, rows: int, trend: float | None) -> None:
    assert check(classifier(classes, rows), table(counts=None), columns(trend=trend)) == []
