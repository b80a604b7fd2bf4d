"""Data sets of few rows."""

from __future__ import annotations

import numpy as np
from tests.checks.given import Given, finding, passes, table

CODE = "PRE307"


def test_a_class_of_few_rows_is_a_note() -> None:
    x, y = table(classes=2)
    y[:] = 0
    y[:12] = 1
    found = finding(CODE, Given(x, y))
    assert found.severity == "info"
    assert "class 1 has about 12 of 400" in found.message


def test_few_rows_for_many_columns_are_a_note() -> None:
    x, y = table(rows=100, columns=40, classes=2)
    assert "40 columns" in finding(CODE, Given(x, y)).message


def test_constant_columns_do_not_count() -> None:
    x, y = table(rows=100, columns=40, classes=2)
    x[:, 5:] = 1
    assert passes(CODE, Given(x, y))


def test_words_are_no_columns() -> None:
    tokens = np.random.default_rng(0).integers(0, 50, (100, 40))
    assert passes(CODE, Given(tokens, np.arange(100) % 2))


def test_counts_of_a_sampled_data_set_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(60_000) < 0.001).astype(int)
    assert passes(CODE, Given(rng.normal(size=(60_000, 2)), y))
