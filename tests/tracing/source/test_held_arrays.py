"""Arrays in the variables of a script, and batches cut out of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mothtrap.tracing.source.held_arrays import arrays_in_reach, contains, rows_of, same_as

X = np.random.default_rng(0).normal(size=(100, 3))


def stream(data: Any) -> Iterator[Any]:
    """Yield from the data for ever."""
    while True:
        yield data[:8]


@pytest.mark.parametrize(
    "held",
    [X, {"image": X}, [X, 1], SimpleNamespace(data=X)],
    ids=["array", "dict", "list", "attribute"],
)
def test_the_array_of_a_batch_is_found(held: Any) -> None:
    name, rows = rows_of(X[3:11], sys._getframe(), np.asarray, 0.25)
    assert name.startswith("held")
    assert rows == 100


def test_variables_of_a_generator_are_in_reach() -> None:
    batches = stream(np.arange(500.0).reshape(100, 5))
    batch = next(batches)
    assert rows_of(batch, sys._getframe(), np.asarray, 0.25) == ("data", 100)


def test_windows_of_a_series_are_found() -> None:
    text = np.random.default_rng(1).integers(0, 90, 4000)
    batch = np.stack([text[i : i + 16] for i in (5, 90, 700, 1300)])
    assert rows_of(batch, sys._getframe(), np.asarray, 0.25) == ("text", 4000)


def test_other_rows_and_large_parts_are_not_found() -> None:
    other, x = X[:8] + 1, X
    assert rows_of(other, sys._getframe(), np.asarray, 0.25) == ("", 0)
    assert rows_of(x[:50], sys._getframe(), np.asarray, 0.25) == ("", 0)


def test_rows_are_compared_as_a_whole() -> None:
    images = np.zeros((50, 4, 4))
    images[:, 1, 2] = np.arange(50)
    assert contains(images, images[10:20])
    assert not contains(images, images[10:20] + np.eye(4))


def test_an_object_that_refers_to_itself_ends_the_search() -> None:
    loop: list[Any] = [X]
    loop.append(loop)
    assert any(one is X for _, one in arrays_in_reach(sys._getframe()))


def test_an_array_of_which_the_identity_is_kept_can_be_resized() -> None:
    rows = np.zeros((4, 2))
    is_same = same_as(rows)
    rows.resize((8, 2))
    assert is_same(rows)
    assert not is_same(np.zeros((8, 2)))


def test_a_value_without_a_shape_is_no_array() -> None:
    class Nested:
        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError("no sizes")

    Nested.__module__ = "torch"
    nested, rows = Nested(), np.zeros((4, 2))
    found = {name for name, _ in arrays_in_reach(sys._getframe())}
    assert "rows" in found
    assert "nested" not in found
    del nested, rows
