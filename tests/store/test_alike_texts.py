"""Texts that differ in one number are parsed like texts read one after another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mothtrap.store.alike_texts import LEAST, alike_but_for_a_number

HEAD = b'{"wall_s":'


def texts(count: int) -> list[str]:
    """Return two kinds alternately, with numbers of every length."""
    generator = np.random.default_rng(0)
    numbers = [
        float(f"{value:.{place % 17}g}")
        for place, value in enumerate(
            generator.uniform(0, 1, count) * 10.0 ** generator.integers(-8, 9, count)
        )
    ]
    return [
        f'{{"wall_s":{number!r},"loss":{place % 2}}}' + "x" * (place % 2)
        for place, number in enumerate(numbers)
    ]


def found(column: pa.Array, rows: np.ndarray) -> dict[int, tuple[float, bytes]]:
    return {
        int(place): (float(number), alike.rest)
        for alike in alike_but_for_a_number(column, rows, HEAD)
        for place, number in zip(alike.place_C, alike.number_C, strict=True)
    }


def one_by_one(text: str) -> tuple[float, bytes]:
    head, _, rest = text.encode().partition(b",")
    return float(head[len(HEAD) :]), rest


@pytest.mark.parametrize("offset", [0, 7])
def test_every_number_and_rest_is_that_of_its_text(offset: int) -> None:
    every = texts(3 * LEAST)
    column = pa.array(every)[offset:]
    rows = np.arange(0, len(column), 2 if offset else 1)
    expected = {at: one_by_one(every[offset + row]) for at, row in enumerate(rows.tolist())}
    assert found(column, rows) == expected


def test_what_has_another_form_is_left_out() -> None:
    every = texts(2 * LEAST)
    every[5] = '{"wall_s":"NaN","loss":1}x'
    every[9] = "{}"
    every[11] = ""
    every[13] = '{"wall_s":' + "1" * 60 + ',"loss":1}x'
    every[15] = '{"wall_s":1.5,"loss":2,"loss":1}x'
    rows = np.arange(len(every))
    known = found(pa.array(every), rows)
    assert not {5, 9, 11, 13, 15} & known.keys()
    assert known == {row: one_by_one(every[row]) for row in known}


def test_few_texts_and_texts_of_another_kind_are_left_to_the_caller() -> None:
    assert found(pa.array(texts(LEAST - 1)), np.arange(LEAST - 1)) == {}
    assert found(pa.array(["other"] * LEAST), np.arange(LEAST)) == {}


def test_a_number_at_the_end_of_the_column_is_left_out() -> None:
    every = [f'{{"wall_s":{"1" * (1 + row % 20)},' for row in range(LEAST)]
    known = found(pa.array(every), np.arange(LEAST))
    assert known == {row: one_by_one(every[row]) for row in known}
