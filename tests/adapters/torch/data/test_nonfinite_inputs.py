from __future__ import annotations

import math

import pytest
import torch

from mothtrap.adapters.torch.data.nonfinite_inputs import MAX_ROWS, all_finite, spots_in

INF = math.inf


def test_rows_and_kinds_are_told() -> None:
    table = torch.zeros(40, 3)
    table[5, 1], table[7, 0], table[7, 2] = math.nan, INF, -INF
    spots = spots_in(table + torch.arange(3))
    assert spots is not None
    assert (spots.nan, spots.inf, spots.rows, spots.row_count) == (1, 2, (5, 7), 2)


def test_a_few_rows_are_named_and_all_counted() -> None:
    spots = spots_in(torch.full((100, 2), math.nan))
    assert spots is not None
    assert (len(spots.rows), spots.row_count) == (MAX_ROWS, 100)


@pytest.mark.parametrize(
    "mask",
    [
        torch.full((4, 4), -INF).triu(1),
        torch.full((2, 3), -INF),
        torch.tensor([1.0, INF, 1.0]),
    ],
)
def test_masks_are_left_out(mask: torch.Tensor) -> None:
    assert spots_in(mask) is None


def test_log_of_zero_among_features_is_no_mask() -> None:
    assert spots_in(torch.tensor([[3.0, 0.0], [1.0, 2.0]]).log()) is not None


@pytest.mark.parametrize(
    "fine",
    [
        *(torch.ones(3, 2), torch.arange(4), torch.ones(0, 3), torch.tensor(1.0)),
        torch.full((9,), 3e38),
        torch.ones(4).to(torch.float8_e4m3fn),
        torch.full((9,), 6e4, dtype=torch.float16),
    ],
)
def test_nothing_is_found_where_nothing_is(fine: torch.Tensor) -> None:
    assert spots_in(fine) is None


def test_a_number_alone_is_a_row() -> None:
    spots = spots_in(torch.tensor(math.nan))
    assert spots is not None
    assert spots.rows == (0,)


def test_infinities_that_cancel_are_found() -> None:
    spots = spots_in(torch.tensor([INF, -INF, 1.0, 2.0]))
    assert spots is not None
    assert (spots.nan, spots.inf) == (0, 2)


@pytest.mark.parametrize("value", [math.nan, INF, -INF])
def test_all_finite_sees_masks_and_single_values(value: float) -> None:
    assert all_finite([torch.ones(3), torch.arange(4), torch.ones(2, dtype=torch.complex64)])
    assert not all_finite([torch.ones(3), torch.tensor([1.0, value, 1.0])])
    assert not all_finite([torch.tensor([1j * value, 0j])])
    assert all_finite([torch.full((9,), 6e4, dtype=torch.float16)]), "only its sum is infinite"
    assert not all_finite([torch.ones(4).to(torch.float8_e4m3fn)]), "unknown"
