"""First losses that differ from the loss from guessing."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn
from torch.nn import functional

LOSS = nn.CrossEntropyLoss()


def test_large_weights_of_the_last_layer_are_named() -> None:
    model = network()
    nn.init.normal_(model[-1].weight, std=20.0)
    found = finding("PRE103", model, table(), LOSS)
    assert found.severity == "warning"
    assert "last layer" in found.message


def test_inputs_that_are_not_scaled_are_named() -> None:
    batches = [(100 * x, y) for x, y in table()]
    assert "inputs are not scaled" in finding("PRE103", network(), batches, LOSS).message


def test_a_model_that_knows_the_labels_is_found() -> None:
    class Knows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return 0.01 * self.body(x) + 5 * functional.one_hot(y, 3)

    model = Knows()

    def step(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(model(*batch), batch[1])

    found = finding("PRE103", model, table(), step=step)
    assert "predicts them before" in found.message


def test_an_ordinary_start_is_no_fault() -> None:
    made = result("PRE103", network(), table(), LOSS)
    assert made.passed
    assert abs(made.figures["guessing"] - 1.0986) < 1e-3


def test_binary_labels_with_a_bias_set_to_their_rate_are_no_fault() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    y = (torch.rand(64, 1) < 0.05).float()
    model = network(classes=1)
    nn.init.constant_(model[-1].bias, -2.9)
    nn.init.normal_(model[-1].weight, std=0.01)
    made = result("PRE103", model, [(x, y)], nn.BCEWithLogitsLoss())
    assert made.found == ()


def test_targets_of_a_regression_far_from_0_are_no_fault_of_the_model() -> None:
    x = torch.randn(32, 6)
    assert passes("PRE103", network(classes=1), [(x, 1000 + x[:, :1])], nn.MSELoss())


def test_predictions_far_larger_than_the_targets_are_found() -> None:
    x = torch.randn(32, 6)
    model = network(classes=1)
    nn.init.normal_(model[-1].weight, std=30.0)
    assert "squared error" in finding("PRE103", model, [(x, x[:, :1])], nn.MSELoss()).message


def test_a_bias_far_from_the_targets_is_named() -> None:
    x = torch.randn(32, 6)
    model = network(classes=1)
    nn.init.constant_(model[-1].bias, 50.0)
    found = finding("PRE103", model, [(x, x[:, :1])], nn.MSELoss())
    assert "a bias of the last layer is too large" in found.message
    assert found.fixes[0].startswith("Set the bias")


def test_labels_that_are_all_alike_have_a_loss_of_guessing() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(16, 6), torch.ones(16, 1))]
    model = nn.Linear(6, 1)
    assert passes("PRE103", model, batches, nn.BCEWithLogitsLoss())
