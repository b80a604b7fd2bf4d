"""Rows with values far from all others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE309"


def test_rows_in_another_unit_are_named() -> None:
    x, y = table(rows=1000)
    x[[17, 430], 2] = 71_000.0
    found = finding(CODE, Given(x, y))
    assert found.severity == "warning"
    assert found.evidence["indices"] == [17.0, 430.0]
    assert "7.1e+04 in column 2" in found.message


def test_rows_that_are_not_finite_are_named() -> None:
    x, y = table()
    x[5, 1], x[9, 3] = np.nan, np.inf
    found = finding(CODE, Given(x, y))
    assert found.evidence["indices"] == [5.0, 9.0]
    assert "not finite" in found.message


def test_a_picture_of_another_range_is_named() -> None:
    pictures = np.random.default_rng(0).random((300, 1, 28, 28)).astype(np.float32)
    pictures[250] *= 255
    found = finding(CODE, Given(pictures, np.arange(300) % 2))
    assert found.evidence["indices"] == [250.0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("draw", ["lognormal", "standard_cauchy_clipped", "exponential"])
def test_heavy_tails_are_no_outliers(draw: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if draw == "lognormal":
        x = rng.lognormal(0, 2, (5000, 5))
    elif draw == "exponential":
        x = rng.exponential(1, (5000, 5))
    else:
        x = np.clip(rng.standard_cauchy((5000, 5)), -100, 100)
    assert passes(CODE, Given(x, np.arange(5000) % 2))


def test_sparse_columns_and_missing_values_are_no_outliers() -> None:
    x, y = table(rows=1000)
    x[:, 0] = 0
    x[::20, 0] = np.arange(50) ** 2
    x[::3, 1] = np.nan
    assert passes(CODE, Given(x, y))


def test_a_column_without_numbers_is_no_outlier() -> None:
    x, y = table()
    x[:, 2] = np.nan
    assert passes(CODE, Given(x, y))


def test_few_rows_decide_nothing() -> None:
    assert result(CODE, Given(*table(rows=50))).state == "not_enough_data"
