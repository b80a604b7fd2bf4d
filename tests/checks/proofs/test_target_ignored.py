"""Losses that ignore their targets."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn
from torch.nn import functional


def test_a_loss_of_the_prediction_with_a_constant_is_found() -> None:
    model = network()

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        x, y = batch
        return 0 * functional.cross_entropy(model(x), y) + model(x).square().mean()

    assert finding("PRE107", model, table(), step=step).severity == "error"


def test_targets_that_are_made_of_the_predictions_are_found() -> None:
    model = network()

    def likeliest(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(scores, scores.argmax(1))

    def half(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(scores, (scores / 2).detach())

    for loss in (likeliest, half):
        found = finding("PRE107", model, table(), loss)
        assert "computed from the model" in found.message


def test_a_line_without_noise_is_no_fault() -> None:
    x = torch.linspace(-1, 1, 16)[:, None]
    assert passes("PRE107", nn.Linear(1, 1), [(x, 3 * x + 2)], nn.MSELoss())


def test_a_loss_of_the_targets_is_no_fault() -> None:
    assert passes("PRE107", network(), table(), nn.CrossEntropyLoss())


def test_equal_targets_are_not_judged() -> None:
    batches = [(x, torch.ones_like(y)) for x, y in table()]
    assert result("PRE107", network(), batches, nn.CrossEntropyLoss()).state == "not_applicable"


def test_a_model_that_predicts_the_same_for_each_row_is_not_judged() -> None:
    model = network()
    last = model[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    made = result("PRE107", model, table(), nn.CrossEntropyLoss())
    assert made.state == "not_enough_data"
    assert "predicts the same" in made.reason
