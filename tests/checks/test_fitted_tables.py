"""Checks of the tables that models are fitted to as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.checks.given import table as random_table

from mothtrap.checks.fitted_tables import NO_STEP, FittedTable, TablesSeen
from mothtrap.core.config import Config
from mothtrap.core.facts.checks import CheckResult
from mothtrap.monitor.catalogue import load_checks


def results(*tables: FittedTable, codes: tuple[str, ...]) -> dict[str, CheckResult]:
    seen = TablesSeen()
    for one in tables:
        seen.take(one)
    made = seen.results(load_checks(Config(select=codes)), 30.0)
    return {one.code: one for one in made}


def fitted(x: Any, y: Any, **more: Any) -> FittedTable:
    return FittedTable(x=x, y=y, role="train", task="classes", model="Forest", **more)


def test_rows_of_evaluation_in_training_are_found() -> None:
    x, y = random_table()
    evaluation = FittedTable(x=x[:50].copy(), y=y[:50], role="evaluation")
    [found] = results(fitted(x, y), evaluation, codes=("PRE301",))["PRE301"].found
    assert "50 of 50" in found.message


def test_a_check_that_needs_a_step_says_why_it_is_left_out() -> None:
    x, y = random_table()
    made = results(fitted(x, y), codes=("PRE104", "PRE307"))
    assert (made["PRE104"].state, made["PRE104"].reason) == ("not_applicable", NO_STEP)
    assert made["PRE307"].state == "done"


def test_texts_of_a_data_frame_become_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = random_table()
    words = np.array(["red", "green", "blue"])[y]
    frame = pandas.DataFrame(x).assign(color=words)
    frame.columns = [str(name) for name in frame.columns]
    made = results(fitted(frame, words), codes=("PRE302", "PRE308"))
    assert made["PRE302"].state == "done"
    assert made["PRE308"].found


def test_the_call_of_the_script_counts_more_than_those_of_a_search() -> None:
    x, y = random_table()
    inner = fitted(np.concatenate([x, x]), np.concatenate([y, y]), direct=False)
    assert results(inner, fitted(x, y), codes=("PRE302",))["PRE302"].figures["rows"] == len(x)


def test_a_table_with_other_columns_is_no_evaluation_of_the_model() -> None:
    x, y = random_table()
    other = FittedTable(x=x[:, :3].copy(), y=y, role="evaluation")
    assert results(fitted(x, y), other, codes=("PRE301",))["PRE301"].state == "not_enough_data"
