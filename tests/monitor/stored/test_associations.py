"""Associations of options with findings."""

from __future__ import annotations

from math import comb

import pytest
from tests.report.faulty_run import exploding

from mothtrap.core.findings import Finding, Severity
from mothtrap.core.ledger import LedgerValue
from mothtrap.monitor.stored.associations import Association, faults_of
from mothtrap.monitor.stored.associations import associations as compare

FAULT = (exploding(),)
Runs = list[tuple[dict[str, LedgerValue], tuple[Finding, ...]]]


def associations(runs: Runs, names: tuple[str, ...]) -> tuple[Association, ...]:
    return compare([(options, faults_of(findings)) for options, findings in runs], names)


def test_a_value_that_all_faulty_runs_have_comes_first() -> None:
    runs = [({"lr": lr, "seed": seed}, FAULT * (lr == 1.0)) for lr in (0.1, 1.0) for seed in (1, 2)]
    first, *others = associations(runs, ("lr", "seed"))
    assert (first.option, first.value, first.code) == ("lr", "1", "GRD101")
    assert (first.found, first.runs, first.found_elsewhere, first.runs_elsewhere) == (2, 2, 0, 2)
    assert first.p == pytest.approx(1 / comb(4, 2))
    assert {(row.option, row.found, row.runs) for row in others} == {("seed", 1, 2)}
    assert all(row.p > first.p for row in others)


def test_many_numbers_are_compared_by_quartile() -> None:
    runs = [({"lr": number / 100}, FAULT * (number >= 30)) for number in range(40)]
    first = associations(runs, ("lr",))[0]
    assert (first.value, first.found, first.runs) == ("0.3 to 0.39", 10, 10)
    assert (first.found_elsewhere, first.runs_elsewhere) == (0, 30)


def test_runs_without_an_option_and_notes_do_not_count() -> None:
    note = exploding(severity=Severity.INFO)
    runs = [({"lr": 1}, FAULT), ({"lr": 2}, (note,)), ({}, FAULT)]
    (row,) = associations(runs, ("lr", "unknown"))
    assert (row.value, row.found, row.runs, row.runs_elsewhere) == ("1", 1, 1, 1)


def test_an_option_with_one_value_explains_nothing() -> None:
    assert associations([({"lr": 1}, FAULT), ({"lr": 1}, ())], ("lr",)) == ()
