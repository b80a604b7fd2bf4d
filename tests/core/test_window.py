"""The text of the numbers that a rule or a person looks at."""

from __future__ import annotations

import numpy as np
import pytest

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
