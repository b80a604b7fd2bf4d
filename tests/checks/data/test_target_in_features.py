"""Columns that reveal the target."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.given import Given, finding, passes, result, table

from mothtrap.checks.subject import Array

CODE = "PRE308"


def with_column(x: Array, column: Array) -> Array:
    return np.column_stack((x[:, :3], column, x[:, 3:]))


def price(rows: int = 400) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 6))
    return x, x @ rng.normal(size=6) + 0.5 * rng.normal(size=rows)


def test_a_copy_of_the_class_number_with_noise_is_named() -> None:
    x, y = table()
    noise = np.random.default_rng(0).normal(size=len(y))
    found = finding(CODE, Given(with_column(x, 5 - 2 * y + 0.01 * noise), y))
    assert found.severity == "warning"
    assert found.evidence["columns"] == [3.0]


def test_a_column_for_each_class_is_named() -> None:
    x, y = table()
    found = finding(CODE, Given(np.column_stack((x, np.eye(3)[y])), y))
    assert found.evidence["columns"] == [6.0, 7.0, 8.0]


@pytest.mark.parametrize("change", [np.exp, np.tanh, lambda y: -3 * y + 1])
def test_a_monotone_function_of_a_number_is_named(change: object) -> None:
    x, y = price()
    found = finding(CODE, Given(with_column(x, change(y)), y), task="numbers")
    assert found.evidence["columns"] == [3.0]


def test_ordinary_tables_pass() -> None:
    assert passes(CODE, Given(*table()))
    assert passes(CODE, Given(*price()), task="numbers")


def test_a_label_that_is_computed_from_one_column_is_no_copy() -> None:
    x, _ = table()
    assert passes(CODE, Given(x, (x[:, 0] > 0).astype(int)))


def test_a_property_of_one_class_is_no_copy() -> None:
    x, y = table(classes=5)
    assert passes(CODE, Given(with_column(x, y == 2), y))


def test_pictures_are_no_table() -> None:
    pictures = np.random.default_rng(0).random((100, 3, 8, 8))
    assert result(CODE, Given(pictures, np.arange(100) % 2)).state == "not_applicable"
