"""BEH601: drift is named by its effect, and not by the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import people

from mothtrap.behavior.probes.drifted import Drifted
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity

X = people(2000)


def price(rows: pd.DataFrame) -> Any:
    return rows.x0 + 0.1 * rows.age + (rows.kind == "a")


def drift(new: pd.DataFrame, before: pd.DataFrame = X, model: Any = price) -> Any:
    from mothtrap.behavior.subjects import Request, make_subject

    subject, _ = make_subject(model, before, model(before) + 0.01, None, Request(), new)
    return list(Drifted().look(subject))


def test_a_column_and_a_category_that_moved_are_named_the_largest_first() -> None:
    new = people(1500, seed=1)
    new["x0"] += 1
    new.loc[:400, "kind"] = "a"
    (found,) = drift(new)
    assert found.features == ("x0", "kind")
    assert found.severity is Severity.WARNING
    assert "median" in found.message
    assert "a 2" in found.message  # share of the category before


def test_values_that_are_missing_now_are_named() -> None:
    new = people(1500, seed=1)
    new.loc[new.index % 4 == 0, "age"] = np.nan
    (found,) = drift(new)
    assert "age (missing in 0.0 %, now in 25.0 %)" in found.message


def test_the_same_distribution_is_quiet_however_many_rows_there_are() -> None:
    assert not drift(people(1500, seed=1))
    large, moved = people(200_000, seed=2), people(200_000, seed=3)
    moved["x0"] += 0.02
    assert not drift(moved, large)


def test_a_column_without_effect_is_a_note() -> None:
    new = people(1500, seed=1)
    new["x2"] *= 5
    (found,) = drift(new)
    assert (found.features, found.severity) == (("x2",), Severity.INFO)


def test_columns_that_only_differ_together_are_named() -> None:
    new = people(1500, seed=1)
    new["x1"] = np.abs(new.x1) * np.sign(new.x0)
    (found,) = drift(new)
    assert set(found.features) == {"x0", "x1"}
    assert "distinguishes new rows" in found.message


def test_outputs_that_moved_are_named_where_no_used_column_did() -> None:
    def newer(rows: pd.DataFrame) -> Any:
        return price(rows) + 3 * (len(rows) < 2000)

    found = drift(people(1500, seed=1), model=newer)
    assert [each.message[:33] for each in found] == ["the outputs for the new rows diff"]


def test_few_rows_and_no_rows_are_said() -> None:
    with pytest.raises(NotEnoughData, match="100 new rows"):
        drift(people(20, seed=1))
