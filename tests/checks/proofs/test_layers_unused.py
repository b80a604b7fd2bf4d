"""The table of layers, and layers that no step uses."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Forgotten(nn.Module):
    """Has a layer that it never calls, and a layer whose weight it uses directly."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm = network(), nn.LayerNorm(3)
        self.shift = nn.Linear(1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.shift.weight[:, 0] + self.shift.bias


def test_a_layer_that_is_never_called_is_named() -> None:
    found = finding("PRE501", Forgotten(), table(), LOSS)
    assert found.severity == "info"
    assert found.layers == ("norm.weight", "norm.bias")
    assert "layer norm was not called" in found.message


def test_the_table_of_layers_has_shapes_parameters_and_multiplications() -> None:
    made = result("PRE501", network(), table(), LOSS)
    given, first, relu, last, loss = made.layers
    assert (given.part, given.kind, given.output) == ("input", "float32", (16, 6))
    assert (loss.part, loss.kind) == ("loss", "cross_entropy")
    assert (first.name, first.kind, first.output, first.parameters) == (
        "0",
        "Linear",
        (16, 16),
        112,
    )
    assert first.multiplications == 16 * 6 * 16
    assert (relu.kind, relu.parameters) == ("ReLU", 0)
    assert last.gradient == "some"
    assert made.figures["parameters"] == 112 + 51


class Recurrent(nn.Module):
    """Reads each row as a sequence of two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, _ = self.lstm(x.reshape(-1, 2, 3))
        return self.head(output[:, -1])


def test_the_multiplications_of_a_recurrent_layer_are_counted() -> None:
    layers = {one.name: one for one in result("PRE501", Recurrent(), table(), LOSS).layers}
    assert layers["lstm"].multiplications == 16 * 2 * 4 * 4 * (3 + 4)
    assert layers["head"].multiplications == 16 * 4 * 3


def test_a_model_whose_layers_are_all_called_passes() -> None:
    assert passes("PRE501", network(), table(), LOSS)
