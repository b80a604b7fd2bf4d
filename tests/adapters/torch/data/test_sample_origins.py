from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

from mothtrap.adapters.torch.data.sample_origins import MAX_ROWS, indices_of, origins


@pytest.mark.parametrize(
    "drawn",
    [[3, 1], (3, 1), [np.int64(3), np.int64(1)], [torch.tensor(3), torch.tensor(1)], [3, True]],
)
def test_whole_numbers_of_any_type_are_indices(drawn: Any) -> None:
    assert indices_of(drawn) == [3, 1]


@pytest.mark.parametrize("drawn", [None, "ab", ["a", "b"], [(1, 2)], [1.5], [None, None]])
def test_anything_else_is_none(drawn: Any) -> None:
    assert indices_of(drawn) is None


def test_one_sample_at_a_time_and_endless_batches() -> None:
    assert indices_of(5) == [5]
    assert indices_of(list(range(10 * MAX_ROWS))) == list(range(MAX_ROWS))


def test_subsets_and_concatenations_in_each_other_are_followed() -> None:
    first, second = list(range(10)), list(range(100, 110))
    inner: Any = Subset(second, [9, 8, 7])  # type: ignore[arg-type]
    data = Subset(ConcatDataset([first, inner]), [0, 12, 10, -1])  # type: ignore[list-item]
    found = origins(data, [0, 1, 2, 3])
    assert found.sets == [first, second]
    assert (found.which, found.indices) == ([0, 1, 1, 1], [0, 7, 9, 7])


def test_data_of_one_kind_need_no_numbers_of_sets() -> None:
    data = list(range(10))
    joined = ConcatDataset([data, data])  # type: ignore[list-item]
    found = origins(joined, [3, 13])
    assert (found.sets, found.which, found.indices) == ([data], [], [3, 3])
