"""Backwards that compute a wrong derivative."""

from __future__ import annotations

from typing import Any

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
    assert finding("PRE108", Cubes(2.0), table(), LOSS).severity == "warning"


def test_the_right_derivative_is_no_fault() -> None:
    assert passes("PRE108", Cubes(3.0), table(), LOSS)
