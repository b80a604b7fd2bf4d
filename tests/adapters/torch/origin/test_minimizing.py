"""A failing call is made as small as possible without failing in another way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.origin.failing_calls import (
    FailingCall,
    outcome_of,
)
from mothtrap.adapters.torch.origin.minimizing import Minimizer


def smallest(function, *args, **kwargs) -> FailingCall:
    call = FailingCall(name="f", function=function, args=args, kwargs=kwargs)
    failure = outcome_of(call)
    assert failure.is_bad
    found = Minimizer(failure).smallest(call)
    assert outcome_of(found).shows(failure)
    return found


def test_one_value_of_a_large_tensor_is_left() -> None:
    x = torch.rand(300, 200) + 0.1
    x[123, 45] = 0.0
    [kept] = smallest(torch.log, x).tensors()
    assert kept.shape == (1, 1)
    assert kept.item() == 0.0


def test_rows_are_cut_in_all_arguments_together() -> None:
    logits, targets = torch.randn(64, 5), torch.randint(0, 5, (64,))
    targets[17] = 9
    call = smallest(nn.functional.cross_entropy, logits, targets)
    assert [tuple(one.shape) for one in call.tensors()] == [(1, 1), (1,)]
    assert call.args[1].tolist() == [9]


def test_a_shape_in_the_message_stays_and_the_data_goes() -> None:
    call = smallest(torch.matmul, torch.randn(4, 16), torch.randn(12, 3))
    assert [tuple(one.shape) for one in call.tensors()] == [(4, 16), (12, 3)]
    assert not any(one.any() for one in call.tensors())


def test_the_same_kind_of_bad_value_stays() -> None:
    """A zero in place of 3.0 would turn the infinity into NaN."""
    call = smallest(torch.div, torch.full((8,), 3.0), torch.zeros(8))
    assert torch.equal(call.args[0], torch.tensor([3.0]))


def test_a_sum_keeps_the_values_that_overflow_together() -> None:
    x = torch.full((100,), 1.0, dtype=torch.float16)
    x[[20, 70]] = 60000.0
    [kept] = smallest(torch.sum, x).tensors()
    assert kept.sum().isinf()
    assert len(kept) == 2


def test_lists_are_cut() -> None:
    weights = [torch.ones(3) for _ in range(40)]
    divisors = [torch.ones(3) for _ in range(40)]
    divisors[33][1] = 0.0
    call = smallest(torch._foreach_div, weights, divisors)
    assert [len(part) for part in call.args] == [1, 1]
    assert call.args[1][0].tolist() == [0.0]


def test_a_tensor_that_is_given_twice_stays_one() -> None:
    x = torch.tensor([1.0, 0.0])
    call = smallest(torch.div, x, x)
    assert call.args[0] is call.args[1]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_arguments_of_the_user_are_not_changed(value: float) -> None:
    x = torch.tensor([1.0, value])
    before = x.clone()
    smallest(torch.Tensor.mul_, x, 2.0)
    assert torch.equal(x.nan_to_num(), before.nan_to_num())
