from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from mothtrap.adapters.torch.job.own_modes import (
    drops_values,
    unswitched_dropout,
    updates_buffers,
)

Tensor = torch.Tensor


class ByFunction(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, training=self.training)


class WithoutRate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout2d(x, 0.3, self.training)


class OfModule(nn.Module):
    """Calls a module, which follows the mode itself."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(x)


class ByModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x) if self.training else x


class AlwaysDropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


class OftenDropping(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, p=self.dropout)


class OnceDropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(F.dropout(x, 0.3, training=self.training).relu(), 0.3)


class ByLiteral(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, training=True)  # Monte Carlo dropout


class NeverDropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.0)


class Conditional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) if self.training else x


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.copy_(x.mean(0))
        return x - self.mean


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask


@pytest.mark.parametrize(
    ("module", "drops"),
    [
        (ByFunction(0.1), True),
        (ByFunction(0.0), False),
        (WithoutRate(), True),
        (ByModule(), False),
        (AlwaysDropping(), False),  # the mode has no effect
        (Averaging(), False),
        (nn.Dropout(0.5), False),  # recognized by its type
        (nn.MultiheadAttention(4, 2), False),
        (nn.Linear(2, 2), False),
    ],
)
def test_dropout_functions_that_depend_on_the_mode_are_found(
    module: nn.Module, drops: bool
) -> None:
    assert drops_values(module) is drops


@pytest.mark.parametrize(
    ("module", "updates"),
    [
        (Averaging(), True),
        (Masked(), False),
        (ByFunction(0.1), False),
        (nn.BatchNorm1d(3), False),
    ],
)
def test_buffers_that_depend_on_the_mode_are_found(module: nn.Module, updates: bool) -> None:
    assert updates_buffers(module) is updates


@pytest.mark.parametrize(
    ("module", "forgets"),
    [
        (AlwaysDropping(), True),
        (OftenDropping(0.3), True),
        (OnceDropping(), True),
        (OftenDropping(0.0), False),
        (ByLiteral(), False),
        (NeverDropping(), False),
        (Conditional(), False),
        (ByFunction(0.1), False),
        (WithoutRate(), False),
        (ByModule(), False),
        (OfModule(), False),
        (nn.Dropout(0.5), False),
    ],
)
def test_dropout_functions_without_the_mode_are_found(module: nn.Module, forgets: bool) -> None:
    found = unswitched_dropout(module)
    assert (found is not None) is forgets
    assert found is None or ("test_own_modes.py:" in found.line and not found.created)


class Creating(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Dropout(p=0.5)(x)


class CreatingInTraining(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Dropout(0.5)(x) if self.training else x


class CreatingOff(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Dropout(0)(x)


def test_a_dropout_created_in_forward_is_found() -> None:
    found = unswitched_dropout(Creating())
    assert found is not None
    assert found.created
    assert "test_own_modes.py:" in found.line
    assert unswitched_dropout(CreatingInTraining()) is None
    assert unswitched_dropout(CreatingOff()) is None
