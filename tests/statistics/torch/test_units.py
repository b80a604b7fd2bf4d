from __future__ import annotations

import pytest
import torch

from mothtrap.statistics.torch import inactive_units, saturated_units


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 3), 1), ((4, 3), -1), ((2, 3, 5, 5), 1), ((3,), 0)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_a_unit_that_is_never_above_zero_is_inactive(shape, axis, dtype):
    output = torch.zeros(shape, dtype=dtype)
    fires_once = tuple(1 if at == axis % len(shape) else -1 for at in range(len(shape)))
    output[fires_once] = 1
    output.movedim(axis, 0)[2] = -3
    assert inactive_units(output, axis).tolist() == [True, False, True]


def test_nan_and_nothing_seen_are_not_inactive():
    output = torch.tensor([[0.0, float("nan"), -1.0]])
    assert inactive_units(output, 1).tolist() == [True, False, True]
    assert inactive_units(torch.empty(0, 3), 1).tolist() == [False] * 3


def test_a_unit_is_saturated_where_all_it_puts_out_lies_at_an_end():
    output = torch.tensor([[1.0, -1.0, 0.99, 0.0], [-1.0, -1.0, 0.5, 2.0]])
    assert saturated_units(output, 1, -1.0, 1.0).tolist() == [True, True, False, False]
    assert saturated_units(output, -1, -1.0, 0.98).tolist() == [True, True, False, False]
    assert saturated_units(output, 0, -1.0, 2.0).tolist() == [False, False]
    images = output.reshape(1, 2, 2, 2)
    assert saturated_units(images, 1, -1.0, 0.4).tolist() == [False, True]


def test_nan_and_nothing_seen_are_not_saturated():
    output = torch.tensor([[float("inf"), float("nan"), 1.0]])
    assert saturated_units(output, 1, -1.0, 1.0).tolist() == [True, False, True]
    assert saturated_units(torch.empty(0, 3), 1, -1.0, 1.0).tolist() == [False] * 3
    assert not saturated_units(torch.ones(4, 3, requires_grad=True), 1, 0.0, 1.0).requires_grad


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16])
def test_units_of_narrow_types_are_seen(dtype):
    output = torch.tensor([[0.0, 1.0], [-1.0, 1.0]]).to(dtype)
    assert inactive_units(output, 1).tolist() == [True, False]
    assert saturated_units(output, 1, -1.0, 1.0).tolist() == [False, True]


def test_no_gradient_is_recorded():
    output = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert not inactive_units(output, 1).requires_grad


def test_an_axis_that_does_not_exist_is_an_error():
    with pytest.raises(IndexError, match="out of range"):
        inactive_units(torch.ones(2, 3), 2)
