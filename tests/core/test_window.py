"""The text of the numbers that a rule or a person looks at."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix, Series


def series(*values: float, of: str = "") -> Series:
    steps_S = np.arange(len(values), dtype=np.int64) + 5
    return Series(name="loss", of=of, mode=Mode.TRAIN, steps_S=steps_S, values_S=np.array(values))


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (series(), "<Series loss of train, no steps>"),
        (series(0.12345678), "<Series loss of train, 1 step from 5 to 5: 0.1235>"),
        (
            series(1.0, 2.0, 3.0, 4.0, of="head"),
            "<Series loss:head of train, 4 steps from 5 to 8: 1, 2, 3, 4>",
        ),
        (
            series(*map(float, range(999)), float("nan")),
            "<Series loss of train, 1000 steps from 5 to 1004: 0, 1, 2, ..., 997, 998, nan>",
        ),
    ],
)
def test_a_series_is_printed_in_one_line(shown: Series, said: str) -> None:
    assert repr(shown) == said


def test_a_matrix_is_printed_in_one_line() -> None:
    steps_S = np.arange(7, dtype=np.int64)
    matrix = Matrix(
        kind="gradient",
        statistic="l2",
        tensors=(),
        steps_S=steps_S,
        values_ST=np.empty((7, 0)),
        present_ST=np.empty((7, 0), np.bool_),
        skipped_S=np.zeros(7, np.bool_),
    )
    assert repr(matrix) == "<Matrix l2 of gradient of train, 7x0, 7 steps from 0 to 6>"


def traced(function: str, calls: int, location: str = "a.py:3") -> FunctionTraced:
    return FunctionTraced(step=0, function=function, traces=1, calls=calls, location=location)


def test_the_latest_facts_are_the_newest_of_each_value_in_order_of_appearance() -> None:
    first, other, newest = traced("f", 1), traced("g", 2), traced("f", 3)
    seen = window(first, other, newest, steps=4)
    assert seen.latest(FunctionTraced, by="function") == [newest, other]
    elsewhere = traced("f", 4, location="b.py:9")
    seen = window(first, elsewhere, steps=4)
    assert seen.latest(FunctionTraced, by=("function", "location")) == [first, elsewhere]
    assert window(steps=4).latest(FunctionTraced, by="function") == []


def test_a_window_says_that_it_has_too_few_steps_for_its_facts() -> None:
    with pytest.raises(NotEnoughData, match="no step was recorded"):
        window(traced("f", 1), steps=0).latest(FunctionTraced, by="function")
    with pytest.raises(NotEnoughData, match="needs 8 steps, saw 4"):
        window(traced("f", 1), steps=4).latest(FunctionTraced, by="function", steps=8)
    with pytest.raises(NotEnoughData, match="needs 8 steps, saw 4"):
        window(traced("f", 1), steps=4).seen(FunctionTraced, steps=8)
    assert list(window(traced("f", 1), steps=0).seen(FunctionTraced)) == [traced("f", 1)]
