"""State of a model that its state_dict does not contain."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.checks.checked import finding, network, passes, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Centered(nn.Module):
    """Subtracts a running mean of its inputs."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.body = network()
        first = torch.zeros(6)
        if kind == "persistent":
            self.register_buffer("mean", first)
        elif kind == "passing":
            self.register_buffer("mean", first, persistent=False)
        else:
            self.mean = first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * (x + 3).mean(0).detach()
        return self.body(x - self.mean)


class Remembers(nn.Module):
    """Keeps its last output, a mask, a table that it never changes, and a count."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.mask, self.seen = torch.ones(6), torch.zeros(())
        self.last: Any = torch.zeros(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + 1
        output = self.body(x * self.mask) + 0 * self.last[: len(x)]
        self.last = output.detach()
        return output


class Own(Centered):
    """Saves its mean in its own way."""

    def get_extra_state(self) -> Any:
        return self.mean

    def set_extra_state(self, state: Any) -> None:
        self.mean = state


@pytest.mark.parametrize("kind", ["plain", "passing"])
def test_a_running_mean_outside_of_the_state_dict_is_named(kind: str) -> None:
    found = finding("PRE202", Centered(kind), table(), LOSS)
    assert found.severity == "warning"
    assert found.layers == ("mean",)
    assert "Centered.state_dict() does not contain mean" in found.message


@pytest.mark.parametrize(
    "model", [Centered("persistent"), Remembers(), Own("plain"), network(), nn.LSTM(6, 3)]
)
def test_state_that_is_saved_or_of_no_influence_is_not(model: nn.Module) -> None:
    batches = table()
    if isinstance(model, nn.LSTM):

        def loss(output: Any, y: torch.Tensor) -> torch.Tensor:
            return LOSS(output[0], y)

        assert passes("PRE202", model, batches, loss)
    else:
        assert passes("PRE202", model, batches, LOSS)
