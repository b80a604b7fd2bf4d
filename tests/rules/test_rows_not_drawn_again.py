from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import RowsDrawn
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.rows_not_drawn_again import RowsNotDrawnAgain


def drawn(**more) -> RowsDrawn:
    options = {
        "batches": 64,
        "rows": 32,
        "drawn": 2048,
        "distinct": 1000,
        "same": 0,
        "anew": 64,
        "kept": 0.03,
        "usual": 0.03,
        "returned": 0.4,
        "shifted": 0.0,
        "irregular": False,
        "source": "x",
        "source_rows": 1000,
        "location": "train.py:7",
    }
    return RowsDrawn(step=63, first_step=0, module="Net", argument="x", **{**options, **more})


def always(**more) -> RowsDrawn:
    return drawn(**{"same": 63, "distinct": 32, "kept": 0.0, "usual": 0.0, "returned": 0.0, **more})


def check(*parts: RowsDrawn) -> list[Finding]:
    return RowsNotDrawnAgain().check(window(*parts))


def test_the_same_few_rows_of_a_variable() -> None:
    [finding] = check(always())
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:7")
    assert finding.message == "Net got the same 32 rows in each of 64 steps, out of 1,000 in `x`"


@pytest.mark.parametrize(
    "perhaps_meant",
    [
        always(anew=1),
        always(rows=80),
        always(source="", source_rows=0),
        drawn(distinct=50),
    ],
)
def test_a_note_if_it_may_be_meant(perhaps_meant: RowsDrawn) -> None:
    [finding] = check(perhaps_meant)
    assert finding.severity == Severity.INFO


def test_many_rows_that_are_a_tiny_part() -> None:
    [finding] = check(always(rows=256, source_rows=50_000))
    assert finding.severity == Severity.WARNING


def test_rows_that_stay() -> None:
    [finding] = check(drawn(same=50, irregular=True))
    assert finding.severity == Severity.WARNING
    assert finding.message.startswith("80 % of the rows of Net were also in the batch of the")
    [finding] = check(drawn(kept=0.8))
    assert finding.severity == Severity.WARNING
    [finding] = check(drawn(kept=0.8, source="", source_rows=0))
    assert finding.severity == Severity.WARNING


@pytest.mark.parametrize(
    "healthy",
    [
        drawn(),
        always(source_rows=32),
        always(source_rows=150),
        always(source="", source_rows=0, rows=4),
        always(source="", source_rows=0, anew=1),
        always(distinct=1),
        always(rows=800, distinct=256),
        drawn(same=50),
        drawn(same=50, irregular=True, returned=0.0, source="", source_rows=0),
        drawn(kept=0.9, shifted=1.0),
        drawn(kept=0.8, usual=0.7),
        drawn(same=20, irregular=True),
        drawn(distinct=16, source_rows=16),
    ],
)
def test_quiet(healthy: RowsDrawn) -> None:
    assert check(healthy) == []


def test_the_latest_counts_of_a_model() -> None:
    assert check(always(batches=32, same=31), drawn()) == []


def test_waits_for_batches() -> None:
    with pytest.raises(NotEnoughData):
        check()
