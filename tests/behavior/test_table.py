"""Every container is read as columns, and returned in its own form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mothtrap.behavior.table import Table

VALUES = {"age": [20, 30, 40], "kind": ["a", "b", "a"]}
FORMS: dict[str, Any] = {
    "pandas": pd.DataFrame(VALUES),
    "polars": pl.DataFrame(VALUES),
    "mapping": {name: np.array(values) for name, values in VALUES.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_container_keeps_its_form(form: str) -> None:
    table = Table(FORMS[form])
    assert table.names == ("age", "kind")
    assert len(table) == 3
    changed = table.replaced({"age": 50, "kind": "b"})
    assert type(changed.data) is type(FORMS[form])
    assert changed.column("age").known_R.tolist() == [50, 50, 50]
    assert changed.column("kind").levels == ("b",)
    assert table.column("age").known_R.tolist() == [20, 30, 40]
    assert table.take(np.array([2, 0])).column("age").known_R.tolist() == [40, 20]
    assert table.take(np.array([True, False, True])).column("kind").levels == ("a",)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_columns_are_reordered_under_their_own_names(form: str) -> None:
    assert Table(FORMS[form]).reordered().names == ("kind", "age")


def test_an_array_has_numbered_columns() -> None:
    table = Table(np.arange(6.0).reshape(3, 2))
    assert table.names == ("x0", "x1")
    assert table.replaced({"x1": 9.0}).data.tolist() == [[0, 9], [2, 9], [4, 9]]


def test_whole_numbers_stay_whole_where_nothing_is_lost() -> None:
    table = Table(FORMS["pandas"])
    assert table.replaced({"age": np.array([1.0, 2.0, 3.0])}).data.age.dtype == np.int64
    assert table.replaced({"age": 1.5}).data.age.tolist() == [1.5, 1.5, 1.5]


def test_missing_values_are_known() -> None:
    table = Table(pd.DataFrame({"x": [1.0, np.nan], "k": [None, "a"]}))
    assert table.column("x").missing_R.tolist() == [False, True]
    assert table.column("k").missing_R.tolist() == [True, False]


def test_pictures_have_no_columns_but_their_metadata() -> None:
    table = Table(np.zeros((4, 8, 8)), about={"writer": list("aabb")})
    assert table.columns == ()
    assert [column.name for column in table.searched] == ["writer"]
    assert table.take(np.array([3])).searched[0].levels == ("b",)


def test_a_model_gets_rows_that_it_may_change() -> None:
    table = Table(FORMS["mapping"])
    table.for_model()["age"][:] = 0
    assert table.column("age").known_R.tolist() == [20, 30, 40]
    array = Table(np.ones((2, 2)))
    array.for_model()[:] = 0
    assert array.column("x0").known_R.tolist() == [1, 1]
