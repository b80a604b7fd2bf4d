from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.trees import ColumnsSeen
from mothtrap.core.findings import Severity
from mothtrap.rules.label_among_features import label_among_features


def fitted(**more) -> EstimatorFitted:
    told = {"step": 9, "fit": "a", "estimator": "MLPClassifier", "call": "fit", "rows": 500}
    return EstimatorFitted(**{**told, "columns": 6, "judged": 500, "location": "a.py:3"} | more)


def check(*parts):
    return label_among_features().check(window(*parts))


def columns(**more) -> ColumnsSeen:
    return ColumnsSeen(**{"step": 0, "fit": "a", "looked_at": 500, "columns": 6} | more)


def test_a_column_that_tells_the_labels_is_a_warning() -> None:
    [finding] = check(fitted(), columns(telling={"late": 0.995, "age": 0.1}))
    assert (finding.severity, finding.layers) == (Severity.WARNING, ("late",))


def test_the_label_itself_is_named_first() -> None:
    told = {"text": 1.0, "label": 1.0}
    [finding] = check(fitted(), columns(telling=told, same_as_label=("label",)))
    assert "column label contains the label" in finding.message


def test_stays_quiet_where_no_column_does() -> None:
    assert check(fitted(), columns(telling={"late": 0.9})) == []
    assert check(fitted(), columns()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(fitted(fit="b"), columns(telling={"late": 1.0}))
    with pytest.raises(NotApplicable):
        check(fitted(), columns(telling={"late": 1.0}, looked_at=100))
