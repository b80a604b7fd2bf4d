"""Gradients that are rounded away."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Cancels(nn.Module):
    """Adds a large number and subtracts it again."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.body[:2](x)
        return self.body[2]((scores + 3e7) - 3e7)


def test_a_difference_of_large_numbers_is_found() -> None:
    found = finding("PRE110", Cancels(), table(), LOSS)
    assert found.severity == "warning"
    assert found.layers


class Spread(nn.Module):
    """Computes a variance as the difference of two large numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 16), nn.Linear(1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large = self.first(x) + 3000.0
        return self.head((large**2).mean(1, keepdim=True) - large.mean(1, keepdim=True) ** 2)


def test_outputs_that_are_rounded_away_are_found() -> None:
    found = finding("PRE110", Spread(), table(), LOSS)
    assert found.severity == "warning"
    assert "outputs" in found.message


def test_an_ordinary_network_is_no_fault() -> None:
    assert passes("PRE110", network(), table(), LOSS)


def test_a_bias_before_batch_normalization_is_no_fault() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    assert passes("PRE110", model, table(), LOSS)
