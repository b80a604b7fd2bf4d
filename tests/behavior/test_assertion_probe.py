"""Assertions on held-out rows: the rate, the segment, and the effect of the correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import people, subject_of

import mothtrap
from mothtrap.behavior.assertion import Assertion
from mothtrap.behavior.assertion_probe import assertion_probes
from mothtrap.behavior.assertions import in_range
from mothtrap.behavior.probe import Suspicion
from mothtrap.core.errors import ConfigError

X = people(2000)
Y = np.abs(X.x0.to_numpy()) + np.random.default_rng(0).normal(0, 0.1, len(X))


def price(rows: pd.DataFrame) -> np.ndarray:
    """A model of a price that is negative for some rows of kind c."""
    right = np.abs(rows.x0.to_numpy())
    return np.where((rows.kind == "c") & (rows.x1 > 0), -right - 1e-3, right)


def found(assertion: Assertion, predict: Any = price, **request: Any) -> list[Suspicion]:
    (probe,) = assertion_probes([assertion])
    return list(probe.look(subject_of(predict, X, Y, **request)))


def test_failing_rows_their_segment_and_a_helpful_correction_are_named() -> None:
    (one,) = found(in_range(low=0.0))
    broken_R = price(X) < 0
    assert one.rows.tolist() == np.flatnonzero(broken_R).tolist()
    assert one.message.startswith(f"{broken_R.sum()} of 2,000 predictions")
    assert {"kind", "x1"} == set(one.features)
    assert one.evidence["correction"] == "helps"
    assert "lowers the mean loss" in one.message


def test_a_correction_that_raises_the_loss_is_refused() -> None:
    made = in_range(low=0.0)
    made.correct(lambda X, predictions: np.full(len(predictions), 9.0))
    (one,) = found(made)
    assert one.evidence["correction"] == "harms"
    assert "do not use it" in one.message


def test_nothing_is_said_where_the_assertion_holds() -> None:
    assert not found(in_range(low=0.0), lambda rows: np.abs(price(rows)))


def test_failing_rows_anywhere_have_no_segment() -> None:
    def anywhere(rows: pd.DataFrame) -> np.ndarray:
        return np.where(np.sin(1e4 * rows.x2) > 0.95, -1.0, np.abs(rows.x0))

    (one,) = found(in_range(low=0.0), anywhere)
    assert "where" not in one.evidence
    assert one.features == ()


def test_a_report_has_the_finding_with_the_severity_that_was_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    report = mothtrap.probe(
        price, X, Y, assertions=[in_range(low=0.0, severity="warning")], select=["BEH207"]
    )
    assert [(f.code, f.name, f.severity) for f in report.findings] == [
        ("BEH911", "in_range", "warning")
    ]
    assert report.findings[0].is_assertion


def test_a_code_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match="BEH201"):
        assertion_probes([in_range(code="BEH201")])
    with pytest.raises(ConfigError, match="BEH911"):
        assertion_probes([in_range(), in_range()])


@pytest.mark.parametrize("columns", [["a", "c"], ["a", "b", "c", "d", "e"]])
def test_a_correction_of_few_rows_that_ruins_them_is_refused(columns: list[str]) -> None:
    """All other rows are as they were: their zeros hid what happens to these 35.

    With five columns, a few huge losses hid that all 35 became worse.
    """
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4000, len(columns))), columns=columns)
    price = np.exp(0.6 * (X.a + X.c)).to_numpy()
    made = in_range(low=0.0, high=8.0)
    made.correct(lambda _, predictions: np.clip(predictions, 0, 1))
    subject = subject_of(
        lambda d: np.exp(0.6 * (d.a + d.c)).to_numpy(), X, price + rng.normal(0, 0.2, 4000)
    )
    [probe] = assertion_probes([made])
    (found,) = probe.look(subject)
    assert found.evidence["correction"] == "harms"
