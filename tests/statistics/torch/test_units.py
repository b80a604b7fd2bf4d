from __future__ import annotations

import pytest
import torch

from mothtrap.statistics.torch import inactive_units


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


def test_no_gradient_is_recorded():
    output = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert not inactive_units(output, 1).requires_grad


def test_an_axis_that_does_not_exist_is_an_error():
    with pytest.raises(IndexError, match="out of range"):
        inactive_units(torch.ones(2, 3), 2)
