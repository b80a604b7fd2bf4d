"""Columns of the input that have no influence."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Drops(nn.Module):
    """Uses the first four of six columns."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(columns=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x[:, :4])


def test_columns_that_a_slice_drops_are_named() -> None:
    found = finding("PRE106", Drops(), table(), LOSS)
    assert found.evidence["columns"] == [4.0, 5.0]
    assert "4, 5" in found.message


def test_columns_with_an_influence_are_no_fault() -> None:
    assert passes("PRE106", network(), table(), LOSS)


def test_constant_columns_are_no_fault() -> None:
    batches = [(torch.cat((x[:, :4], torch.ones(len(x), 2)), 1), y) for x, y in table()]
    assert passes("PRE106", Drops(), batches, LOSS)


class Blind(nn.Module):
    """Ignores its input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x * 0)


def test_a_model_that_ignores_its_input_does_not_pass() -> None:
    made = result("PRE106", Blind(), table(), LOSS)
    assert (made.state, made.found, made.passed) == ("not_enough_data", (), "")
