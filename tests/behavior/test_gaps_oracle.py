"""Errors of a segment and of the other rows equal those of fairlearn, if it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import labels, people, subject_of, sure

from mothtrap.behavior.gaps import gap_in
from mothtrap.behavior.segments import Literal, Segment

metrics = pytest.importorskip("fairlearn.metrics")


@pytest.mark.parametrize("kind", list("abcd"))
def test_the_error_rates_of_a_segment_are_those_of_fairlearn(kind: str) -> None:
    X = people(2000)
    y = labels(X, np.where(X.kind == "b", 0.3, 0.1))
    subject = subject_of(sure, X, y)
    rows = subject.confirm_R
    frame = metrics.MetricFrame(
        metrics={"wrong": lambda truth, said: float(np.mean(truth != said)), "n": metrics.count},
        y_true=y[rows],
        y_pred=sure(X[rows]).argmax(axis=1),
        sensitive_features=(X.kind[rows] == kind).rename("inside"),
    ).by_group
    found = gap_in(subject, Segment((Literal("kind", level=kind),)), subject.judged.error_R)
    assert found.inside == pytest.approx(frame.wrong[True])
    assert found.outside == pytest.approx(frame.wrong[False])
    assert found.rows == frame.n[True]
