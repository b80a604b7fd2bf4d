"""Places in arrays become rows of the batch, where that can be said."""

from __future__ import annotations

import pytest

from mothtrap.adapters.torch.reproduce.narrowing.narrowing import rows_of_batch


@pytest.mark.parametrize(
    ("places", "length", "count", "rows"),
    [
        ((3, 17), 32, 32, (3, 17)),
        ((0, 5, 6, 11), 24, 4, (0, 1)),  # six words a row
        ((3,), 7, 32, ()),
        ((3,), 32, 0, ()),
        ((), 32, 32, ()),
    ],
)
def test_rows_are_those_whose_entries_are_bad(
    places: tuple[int, ...], length: int, count: int, rows: tuple[int, ...]
) -> None:
    assert rows_of_batch(places, length, count) == rows
