"""Labels that differ between training and evaluation."""

from __future__ import annotations

import numpy as np
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE304"


def test_rows_that_are_sorted_by_class_before_the_split_are_a_warning() -> None:
    x, y = table()
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
    found = finding(CODE, Given(x[:250], y[:250]), Given(x[250:], y[250:], "evaluation"))
    assert found.severity == "warning"
    assert found.evidence["absent"] == [2.0]
    assert "classes 2" in found.message


def test_a_random_split_passes_with_few_rows_and_many_classes() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(300, 3)), rng.integers(0, 20, 300)
        parts = Given(x[:200], y[:200]), Given(x[200:], y[200:], "evaluation")
        assert passes(CODE, *parts, task="classes")


def test_balanced_training_data_are_a_note() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 3)), (np.arange(1000) % 2)
    other = (rng.random(500) < 0.35).astype(int)
    found = finding(CODE, Given(x, y), Given(x[:500] + 1, other, "evaluation"))
    assert found.severity == "info"


def test_too_few_rows_decide_nothing() -> None:
    x, y = table(rows=20)
    assert result(CODE, Given(x, y), Given(x, y, "evaluation"), task="classes").state == (
        "not_enough_data"
    )


def test_a_class_that_training_lacks_is_found_among_many() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1500, 3)), np.arange(1500) % 10
    kept = np.flatnonzero(y[:1100] < 9)
    found = finding(
        CODE, Given(x[kept], y[kept]), Given(x[1100:], y[1100:], "evaluation"), task="classes"
    )
    assert found.severity == "warning"
    assert found.evidence["absent"] == [9.0]
