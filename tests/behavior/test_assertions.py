"""The usual assertions: each fails where it should, holds on a healthy twin, and corrects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mothtrap.behavior.assertion import Assertion
from mothtrap.behavior.assertions import (
    agrees_with,
    consistent_under,
    in_range,
    monotone,
    stable_over_time,
    sums_to_one,
)
from mothtrap.core.errors import ConfigError

ROWS = pd.DataFrame({"size": [10.0, 20.0, 30.0], "id": ["a", "b", "c"]})


def holds(made: Assertion, X: Any, predictions: Any, predict: Any = None) -> list[bool]:
    found: list[bool] = made.holds(X, predictions, predict).tolist()
    return found


def test_in_range_names_numbers_outside_and_moves_them_to_the_bound() -> None:
    made, given = in_range(0, 5), np.array([-1.0, 3.0, 9.0, np.nan, np.inf])
    assert holds(made, None, given) == [False, True, False, False, False]
    assert made.correction is not None
    assert made.correction(None, given)[[0, 1, 2, 4]].tolist() == [0, 3, 5, 5]


def test_sums_to_one_names_rows_that_do_not_and_divides_by_the_sum() -> None:
    given = np.array([[0.2, 0.8], [0.5, 0.2], [1.2, -0.2]])
    made = sums_to_one()
    assert holds(made, None, given) == [True, False, False]
    assert made.correction is not None
    assert np.allclose(made.correction(None, given).sum(axis=1), 1)
    assert holds(made, None, np.array([0.3, 1.5])) == [True, False]


def test_monotone_names_rows_in_which_the_output_falls() -> None:
    def hill(rows: Any) -> Any:
        return -np.abs(rows["size"].to_numpy() - 20)

    made = monotone("size", "+", step=0.5)
    assert holds(made, ROWS, hill(ROWS), hill) == [True, False, False]
    assert holds(made, ROWS, ROWS["size"].to_numpy(), lambda d: d["size"].to_numpy()) == [True] * 3
    many = pd.concat([ROWS] * 40)
    assert all(holds(made, many, hill(many), hill)[32:])  # only the first rows are asked
    with pytest.raises(ConfigError, match=r"expected \+ or -"):
        monotone("size", "up")  # type: ignore[arg-type]


def test_consistent_under_names_rows_that_a_harmless_change_moves() -> None:
    def by_case(rows: Any) -> Any:
        return np.where(rows.id.str.islower() & (rows.id != "c"), 1.0, 0.0)

    made = consistent_under(lambda rows: rows.assign(id=rows.id.str.upper()))
    assert holds(made, ROWS, by_case(ROWS), by_case) == [False, False, True]
    assert all(holds(made, ROWS, np.zeros(3), lambda d: np.zeros(len(d))))
    labels = np.array(["x", "y", "y"])
    assert holds(made, ROWS, labels, lambda _: np.array(["x", "x", "y"])) == [True, False, True]


def test_agrees_with_judges_and_corrects_rows_of_which_the_rule_knows() -> None:
    made = agrees_with(lambda rows: [None if size < 15 else 1.0 for size in rows["size"]])
    given = np.array([5.0, 1.0, 3.0])
    assert holds(made, ROWS, given) == [True, True, False]
    words = agrees_with(lambda rows: ["no", None, "yes"])
    assert holds(words, ROWS, np.array(["no", "no", "no"])) == [True, True, False]


def test_stable_over_time_compares_with_the_last_call() -> None:
    made = stable_over_time("id", changes=0.5)
    assert all(holds(made, ROWS, np.array([1.0, 2.0, 3.0])))
    turned = ROWS.iloc[::-1]
    assert holds(made, turned, np.array([3.4, 2.0, 9.0])) == [True, True, False]
    assert all(holds(made, turned, np.array([3.4, 2.0, 9.0])))
    labels = stable_over_time("id")
    assert all(holds(labels, ROWS, np.array(["x", "y", "z"])))
    assert holds(labels, ROWS, np.array(["x", "x", "z"])) == [True, False, True]
