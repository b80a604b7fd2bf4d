"""Rows are selected only from values that have the size of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mothtrap.adapters.torch.origin.row_selection import batch_size, chosen


@dataclass(frozen=True)
class Batch:
    """A batch type that a collate function may return."""

    x: torch.Tensor


def test_rows_are_taken_from_what_has_the_size_of_the_batch() -> None:
    weights = torch.ones(3)
    value = {
        "x": torch.arange(8.0).reshape(4, 2),
        "labels": (np.arange(4), weights),
        "texts": ["a", "b"],
        "rate": 0.5,
    }
    taken = chosen(value, [1, 3], 4, repeat=False)
    assert taken["x"].tolist() == [[2.0, 3.0], [6.0, 7.0]]
    assert taken["labels"][0].tolist() == [1, 3]
    assert taken["labels"][1] is weights
    assert (taken["texts"], taken["rate"]) == (["a", "b"], 0.5)


def test_repeated_rows_fill_the_batch() -> None:
    assert chosen(torch.arange(4), [1, 3], 4, repeat=True).tolist() == [1, 3, 1, 3]


def test_an_input_that_is_trained_stays_one() -> None:
    assert chosen(torch.ones(4, requires_grad=True), [0], 4, repeat=False).requires_grad


def test_the_size_of_a_batch_is_that_of_its_first_array() -> None:
    assert batch_size({"step": 3, "x": [torch.ones(5, 2), torch.ones(7)]}) == 5
    assert batch_size([1, "a", torch.tensor(3.0)]) is None


def test_what_is_one_object_stays_one() -> None:
    x = torch.arange(4)
    first, second = chosen([x, (x,)], [2], 4, repeat=False)
    assert first is second[0]


def test_rows_are_taken_from_fields() -> None:
    assert chosen(Batch(torch.arange(4)), [2], 4, repeat=False).x.tolist() == [2]
