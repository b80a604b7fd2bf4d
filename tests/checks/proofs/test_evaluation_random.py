"""Models that are random in evaluation mode."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, passes, result, table
from torch import nn
from torch.nn import functional

LOSS = nn.CrossEntropyLoss()


class Drops(nn.Module):
    """Drops values in evaluation, too, unless it gets the mode."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__()
        self.first, self.last, self.knows = nn.Linear(6, 16), nn.Linear(16, 3), knows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        training = self.training if self.knows else True
        return self.last(functional.dropout(self.first(x), 0.5, training))


def test_dropout_in_evaluation_is_found_behind_the_layer_that_it_changes() -> None:
    found = finding("PRE109", Drops(knows=False), table(), LOSS)
    assert found.layers == ("last",)
    assert found.severity == "warning"
    assert found.mode == "eval"


def test_noise_that_a_model_draws_on_purpose_is_an_info() -> None:
    class Samples(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x)
            return self.last(hidden + torch.randn_like(hidden))

    assert finding("PRE109", Samples(), table(), LOSS).severity == "info"
    assert result("PRE110", Samples(), table(), LOSS).state == "not_applicable"


def test_dropout_that_knows_the_mode_is_no_fault() -> None:
    assert passes("PRE109", Drops(knows=True), table(), LOSS)
