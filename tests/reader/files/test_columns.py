from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.reader.files.columns import Column, Table


@given(st.integers(1, 200), st.lists(st.integers(-5, 5), max_size=900))
def test_a_column_shows_the_last_rows(keep: int, values: list[int]) -> None:
    column = Column(keep, np.int64)
    for value in values:
        column.append(value)
    assert column.view().tolist() == values[-keep:]
    column.forget(len(values[-keep:]) // 2)
    column.append(9)
    assert column.view().tolist() == [*values[-keep:][: len(values[-keep:]) // 2], 9][-keep:]


@given(st.lists(st.lists(st.integers(-5, 5), max_size=70), max_size=9), st.integers(1, 200))
def test_each_view_is_of_what_was_added_before(added: list[list[int]], keep: int) -> None:
    column, expected = Column(keep, np.int64), list[int]()
    for number, values in enumerate(added):
        if number % 3 == 2:
            expected = expected[-keep:][:number]
            column.forget(len(expected))
        else:
            column.extend(values)
            expected += values
        assert column.view().tolist() == expected[-keep:]
        assert column.view().tolist() == expected[-keep:]


def test_a_view_never_changes_and_cannot_be_written() -> None:
    column, table = Column(3, np.float64), Table(3)
    table.widen(2)
    for number in range(40):
        column.append(number)
        table.append(np.array([number % 2]), np.array([float(number)]))
        view, (values, present) = column.view(), table.views()
        before = view.copy(), values.copy(), present.copy()
        table.widen(2 + number)
        for later in range(7):
            column.append(-later)
            table.append(np.array([0]), np.array([-1.0]))
        column.forget(1)
        table.forget(1)
        column.append(-9)
        table.append(np.array([1]), np.array([-9.0]))
        np.testing.assert_array_equal(view, before[0])
        np.testing.assert_array_equal(values, before[1])
        np.testing.assert_array_equal(present, before[2])
    for array in (view, values, present):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
