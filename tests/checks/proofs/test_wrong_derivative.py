"""Backwards that compute a wrong derivative."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.checks.checked import finding, passes, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Cube(torch.autograd.Function):
    """x ** 3 with a backward that is `factor` times x ** 2."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * ctx.factor * ctx.saved_tensors[0] ** 2, None


class Cubes(nn.Module):
    """A network with a cube inside."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.factor = nn.Linear(6, 16), nn.Linear(16, 3), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(Cube.apply(self.first(x), self.factor))


def test_a_wrong_factor_is_found() -> None:
    found = finding("PRE108", Cubes(2.0), table(), LOSS)
    assert found.severity == "warning"
    assert "the backward pass of Cube is wrong" in found.message


def test_the_right_derivative_is_no_fault() -> None:
    assert passes("PRE108", Cubes(3.0), table(), LOSS)


class Sign(torch.autograd.Function):
    """A sign whose backward passes the gradient on."""

    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(_ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class Steps(nn.Module):
    """A network of signs, with an estimator by a function or by `detach`."""

    def __init__(self, *, function: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.function = nn.Linear(6, 16), nn.Linear(16, 3), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        soft = self.first(x)
        hard = Sign.apply(soft) if self.function else soft + (soft.sign() - soft).detach()
        return self.last(hard)


@pytest.mark.parametrize("function", [True, False])
def test_a_rounded_value_with_the_gradient_of_its_input_is_a_note(function: bool) -> None:
    found = finding("PRE108", Steps(function=function), table(), LOSS)
    assert found.severity == "info"
    assert "straight-through" in found.message
    assert vars(torch.autograd.Function)["apply"].__func__.__qualname__ == "Function.apply"
