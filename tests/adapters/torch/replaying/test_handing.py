"""Loaders return recorded batches at recorded positions, and their own batches elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from mothtrap.adapters.torch.replaying.handing import (
    Handed,
    HandingIterator,
    LoaderNumbers,
    completed,
)
from mothtrap.snapshot.tree import Opaque


class Rows(Dataset[int]):
    """Four rows; counts how often one is read."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.asked += 1
        return index


def own(loader: DataLoader[Any]) -> Iterator[Any]:
    return DataLoader.__iter__(loader)


def test_a_loader_that_hands_out_recorded_batches_never_asks_its_data() -> None:
    rows = Rows()
    iterator = HandingIterator(DataLoader(rows), own, 0, lambda *_: Handed("recorded"))
    assert [next(iterator) for _ in range(3)] == ["recorded"] * 3
    assert len(iterator) == 4
    assert rows.asked == 0


def test_it_gives_its_own_where_nothing_was_recorded() -> None:
    rows = Rows()
    iterator = HandingIterator(DataLoader(rows, batch_size=2), own, 0, lambda *_: None)
    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3]]
    assert rows.asked == 4


def test_what_was_not_kept_of_a_batch_is_the_loaders_own() -> None:
    rows = Rows()
    recorded = [Opaque("int64 of shape (2,)"), {"weights": [3.0, Opaque("a file")]}]

    def ask(_: int, __: str, own: Callable[[], Any]) -> Handed:
        batch, lacking = completed(recorded, lambda: [own(), {"weights": [1.0, "own"]}])
        assert lacking == "instead of values that were not kept: int64 of shape (2,) and 1 more"
        return Handed(batch)

    found, weights = next(HandingIterator(DataLoader(rows, batch_size=2), own, 0, ask))
    assert found.tolist() == [0, 1]
    assert weights == {"weights": [3.0, "own"]}


def test_a_batch_that_was_kept_whole_asks_for_nothing() -> None:
    def fails() -> None:
        raise AssertionError

    batch = [torch.ones(2), ("a", 1)]
    found, lacking = completed(batch, fails)
    assert found is batch
    assert lacking == ""


def test_the_place_of_the_users_code_is_asked_for() -> None:
    asked = []

    def ask(number: int, site: str, _: object) -> Handed | None:
        asked.append((number, site.rpartition(":")[0].endswith("test_handing.py")))
        return Handed(1)

    next(HandingIterator(DataLoader(Rows()), own, 3, ask))
    assert asked == [(3, True)]


def test_what_else_is_asked_is_answered_by_the_loaders_own_iterator() -> None:
    iterator = HandingIterator(DataLoader(Rows()), own, 0, lambda *_: Handed(1))
    assert iterator._num_workers == 0
    with pytest.raises(AttributeError):
        iterator.absent


def test_loaders_are_numbered_in_the_order_in_which_they_are_iterated() -> None:
    numbers, first, second = LoaderNumbers(), DataLoader(Rows()), DataLoader(Rows())
    assert [numbers.of(x) for x in (second, first, second)] == [0, 1, 0]
