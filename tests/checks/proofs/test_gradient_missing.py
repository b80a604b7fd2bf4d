"""Layers that get no gradient."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class TwoLayers(nn.Module):
    """Two layers with an operation between them."""

    def __init__(self, between: str) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.between == "no_grad":
            with torch.no_grad():
                hidden = self.second(self.first(x))
        elif self.between == "detach":
            hidden = self.second(self.first(x).relu().detach())
        elif self.between == "unused":
            self.first(x)
            hidden = self.second(torch.cat((x, x[:, :2]), 1))
        else:
            hidden = self.second(self.first(x).relu())
        return self.third(hidden.relu())


def test_a_detached_output_is_named_with_the_layers_around_the_cut() -> None:
    found = finding("PRE101", TwoLayers("detach"), table(), LOSS)
    assert found.severity == "error"
    assert found.layers == ("first.weight", "first.bias")
    assert "cut between first and second" in found.message


def test_an_unused_output_is_no_cut_in_the_graph() -> None:
    found = finding("PRE101", TwoLayers("unused"), table(), LOSS)
    assert "output of first has no influence" in found.message


def test_a_layer_under_no_grad_is_named() -> None:
    found = finding("PRE101", TwoLayers("no_grad"), table(), LOSS)
    assert "no_grad" in found.message
    assert set(found.layers) == {"first.weight", "first.bias", "second.weight", "second.bias"}


def test_a_gradient_that_reaches_all_layers_is_no_fault() -> None:
    assert passes("PRE101", TwoLayers(""), table(), LOSS)


def test_a_layer_that_is_not_called_is_no_fault() -> None:
    model = TwoLayers("")
    model.spare = nn.Linear(2, 2)
    assert passes("PRE101", model, table(), LOSS)


def test_gradients_that_are_exactly_zero_are_a_warning() -> None:
    model = network()
    with torch.no_grad():
        model[0].bias.fill_(-1000.0)  # every unit is dead
    found = finding("PRE101", model, table(), LOSS)
    assert found.severity == "warning"
    assert "exactly 0" in found.message
    assert "the output of 1 (ReLU) has the same value everywhere" in found.message
    assert "0.weight" in found.layers


def test_a_normalization_over_a_single_value_is_named() -> None:
    model = nn.Sequential(nn.Linear(6, 1), nn.LayerNorm(1), nn.Linear(1, 3))
    found = finding("PRE101", model, table(), LOSS)
    assert "the output of 1 (LayerNorm) has the same value everywhere" in found.message
    assert found.fixes[0].startswith("Normalize over more than one value")


def test_frozen_parameters_are_no_fault() -> None:
    model = network()
    model[0].requires_grad_(False)
    assert result("PRE101", model, table(), LOSS).found == ()
