"""The gradient check of the guard, for gradients of every kind and dtype."""

from __future__ import annotations

import math

import pytest
import torch

from mothtrap.adapters.torch.guard import gradient_check
from mothtrap.adapters.torch.guard.gradient_check import look_at, nonfinite_among

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)


def gradients(dtype: torch.dtype, broken: float | None = None) -> list[torch.Tensor]:
    torch.manual_seed(0)
    found = [torch.randn(size).to(dtype) for size in ((3, 5), (70000,), ())]
    if broken is not None:
        found[1][69999] = broken
    return found


def one_row(value: float) -> torch.Tensor:
    place, values = torch.tensor([[1]]), torch.tensor([value])
    return torch.sparse_coo_tensor(place, values, (10,), check_invariants=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_finite_gradients_have_a_norm(
    dtype: torch.dtype, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = gradients(dtype)
    exact = math.sqrt(sum(float(g.to(torch.complex128).abs().square().sum()) for g in given))
    if elsewhere:  # as on a device, which this machine does not have
        assert gradient_check._device_norm(given) == pytest.approx(exact, rel=1e-4)
        return
    look = look_at(given)
    assert (look.tensors, look.nonfinite) == (3, False)
    assert look.norm == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_not_finite_is_seen(dtype: torch.dtype, broken: float) -> None:
    given = gradients(dtype, broken)
    assert look_at(given).nonfinite
    assert gradient_check._device_rows(given)[0, gradient_check.COLUMN["nan"]] == 1
    assert nonfinite_among([None, *given]) == [2]


def test_squares_that_overflow_are_no_fault_of_the_values() -> None:
    large = [torch.full((10,), 1e30), torch.full((4,), 6e4, dtype=torch.float16)]
    assert not look_at(large).nonfinite
    assert look_at(large).norm == pytest.approx(1e30 * math.sqrt(10), rel=1e-5)
    rows_TF = gradient_check._device_rows(large)
    assert rows_TF[0, gradient_check.COLUMN["nan"]] == 0
    assert rows_TF[0, gradient_check.COLUMN["l2"]] == math.inf  # above any bound


def test_sparse_empty_and_scaled_gradients() -> None:
    sparse = one_row(3.0)
    look = look_at([sparse, torch.empty(0)], scale=torch.tensor(4.0))
    assert (look.tensors, look.nonfinite, look.norm) == (1, False, 0.75)
    broken = one_row(math.nan)
    assert look_at([broken]).nonfinite
    assert nonfinite_among([sparse, broken]) == [1]


def test_nothing_is_sound() -> None:
    look = look_at([])
    assert (look.tensors, look.nonfinite, look.norm) == (0, False, 0.0)
