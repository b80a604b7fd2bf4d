from __future__ import annotations

import numpy as np
import pytest
import torch

from mothtrap.statistics.torch.row_digests import row_digests
from mothtrap.tracing.describe.copied_rows import RowSample, only_repeated_are_known


def copies(rows: torch.Tensor, known: torch.Tensor) -> bool:
    sample = RowSample()
    for part in rows.split(50):
        sample.add(part.numpy(), row_digests(part))
    return sample.are_copies(np.unique(row_digests(known)))


def test_rows_of_numbers_cannot_be_equal_by_chance() -> None:
    rows = torch.randn(100, 8)
    assert copies(rows, rows[:10])
    images = torch.randint(0, 4, (100, 1, 8, 8)).float()
    assert copies(images, images[:10])


@pytest.mark.parametrize(
    "rows",
    [
        torch.randint(0, 2, (200, 6), generator=torch.Generator().manual_seed(0)).float(),
        torch.eye(5)[torch.randint(0, 5, (200, 3), generator=torch.Generator().manual_seed(0))],
    ],
    ids=["flags", "one-hot categories"],
)
def test_categories_may_be_equal_by_chance(rows: torch.Tensor) -> None:
    assert not copies(rows, rows[:10])


def test_few_rows_prove_nothing() -> None:
    rows = torch.randn(100, 8)
    assert not copies(rows, rows[:4])
    assert not copies(rows[:20], rows[:10])
    assert not copies(torch.randn(100, 2), torch.randn(10, 2))


def known(once: float, repeated: float, trained_rows: int = 1000) -> bool:
    share_N = np.concatenate([np.full(200, once), np.full(40, repeated)])
    known_N = np.arange(240) % 20 < 20 * share_N
    count_N = np.concatenate([np.ones(200, int), np.full(40, 5)])
    return only_repeated_are_known(known_N, count_N, trained_rows)


def test_only_repeated_rows_are_known_where_they_were_split_afterwards() -> None:
    assert known(0.0, 1.0)
    assert known(0.05, 0.6)
    assert not known(0.5, 1.0)  # half a pass over the data that are evaluated
    assert not known(0.0, 0.2)
    assert not known(0.0, 1.0, trained_rows=100)
