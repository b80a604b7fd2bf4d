from __future__ import annotations

import numpy as np
import pytest
import torch

from mothtrap.statistics.torch.row_digests import row_digests, sample_digests


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
)
def test_equal_rows_are_equal_and_others_are_not(dtype: torch.dtype) -> None:
    rows = torch.arange(60).reshape(12, 5).to(dtype)
    rows = rows if dtype is not torch.bool else torch.eye(12).bool()[:, :11]
    twice = torch.cat([rows, rows[:3]])
    digest_R = row_digests(twice)
    assert digest_R.shape == (15,)
    assert len(set(digest_R.tolist())) == 12
    assert digest_R[12:].tolist() == digest_R[:3].tolist()


def test_one_changed_bit_and_columns_that_change_places_are_seen() -> None:
    row = torch.randn(1, 40)
    changed, swapped = row.clone(), row.clone()
    changed[0, 17] = torch.nextafter(row[0, 17], torch.tensor(9.0))
    swapped[0, [3, 4]] = row[0, [4, 3]]
    assert len({int(row_digests(r)[0]) for r in (row, changed, swapped)}) == 3


def test_layout_in_memory_does_not_matter() -> None:
    images = torch.randn(4, 3, 5, 5)
    same = images.to(memory_format=torch.channels_last)
    assert row_digests(images).tolist() == row_digests(same).tolist()
    assert row_digests(images.flip(0).flip(0)).tolist() == row_digests(images).tolist()


def test_of_long_rows_a_spread_choice_is_looked_at() -> None:
    rows = torch.randn(2, 10_000)
    assert row_digests(rows, columns=100).tolist() == row_digests(rows[:, ::100]).tolist()


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3,), ()])
def test_odd_shapes_have_a_number_for_each_row(shape: tuple[int, ...]) -> None:
    assert len(row_digests(torch.zeros(shape))) == (shape[0] if shape else 1)


def test_no_random_number_is_drawn() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    row_digests(torch.ones(3, 77))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.int8]
)
@pytest.mark.parametrize("columns", [3, 256, 700])
def test_how_the_rows_lie_in_memory_does_not_count(dtype: torch.dtype, columns: int) -> None:
    rows = torch.randint(-100, 100, (4, columns)).to(dtype)
    moved = rows.t().contiguous().t()
    assert not moved.is_contiguous()
    assert (row_digests(rows) == row_digests(moved)).all()
    assert sample_digests(rows) == sample_digests(moved)


def test_rows_of_a_sparse_matrix_are_equal_where_their_entries_are() -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 1.0]])
    first, second, third, fourth = row_digests(dense.to_sparse()).tolist()
    assert first == third
    assert len({first, second, fourth}) == 3
    shuffled = row_digests(dense[[1, 0, 3, 2]].to_sparse()).tolist()
    assert shuffled == [second, first, fourth, third]
