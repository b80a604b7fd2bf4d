from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.interpolated_rows import interpolated_rows


def check(between: int, inspected: int = 128) -> list[Finding]:
    fact = RowsShared(
        step=1,
        module="RandomForestClassifier",
        argument="X",
        source="score at train.py:9",
        train_rows=800,
        eval_rows=200,
        shared=0,
        inspected=inspected,
        between=between,
        location="train.py:9",
    )
    return interpolated_rows().check(window(fact))


def test_rows_between_training_rows_are_a_warning() -> None:
    [finding] = check(31)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "31 of 128 inspected rows of score at train.py:9 lie exactly between" in finding.message


@pytest.mark.parametrize(("between", "inspected"), [(0, 128), (6, 128), (4, 20)])
def test_stays_quiet(between: int, inspected: int) -> None:
    assert check(between, inspected) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="continuous numbers"):
        check(0, 0)
