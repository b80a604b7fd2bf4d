"""For a finite loss, the operation with an infinite derivative is found."""

from __future__ import annotations

import sys

import torch

from mothtrap.adapters.torch.source.bad_values import BadValue, BadValueSearch
from mothtrap.adapters.torch.source.derivatives import DerivativeSearch
from mothtrap.adapters.torch.source.scopes import running_call


def backward(loss: torch.Tensor) -> BadValue | None:
    assert torch.isfinite(loss)
    frame = sys._getframe(1)
    call = running_call(frame)
    assert call is not None
    return DerivativeSearch(BadValueSearch([])).in_call(call, frame)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    one = torch.randn(4, 3, requires_grad=True)
    other = one.detach().clone()
    other[:2] += 1
    return one, other


def test_the_square_root_of_zero() -> None:
    one, other = rows()
    apart = (one - other).square().sum(1).sqrt()
    loss = apart.mean()
    found = backward(loss)
    assert found is not None
    assert found.code == "(one - other).square().sum(1).sqrt()"


def test_a_power_below_one() -> None:
    one, other = rows()
    loss = (((one - other) ** 2).sum(1) ** 0.5).sum()
    found = backward(loss)
    assert found is not None
    assert found.code.endswith("** 0.5")


def test_an_epsilon_keeps_the_derivative_finite() -> None:
    one, other = rows()
    apart = ((one - other).square().sum(1) + 1e-8).sqrt()
    loss = apart.mean()
    assert backward(loss) is None


def test_a_root_of_data_passes_no_gradient() -> None:
    one, other = rows()
    scale = (other * 0).sqrt()
    loss = (one * scale).sum()
    assert backward(loss) is None


def test_of_two_roots_none_is_guessed() -> None:
    one, other = rows()
    first = (one - other).square().sum(1).sqrt()
    second = (one - other).abs().sum(1).sqrt()
    loss = first.sum() + second.sum()
    assert backward(loss) is None
