"""Values of losses with a margin."""

from __future__ import annotations

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.losses import MarginLoss


class OwnTripletLoss(nn.Module):
    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, a: torch.Tensor, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        near, far = (a - p).square().sum(1), (a - n).square().sum(1)
        return torch.relu(near - far + self.margin).mean()


def found(loss: nn.Module, steps: int) -> list[MarginLoss]:
    model = nn.Linear(4, 3)
    with watched() as seen:
        optimizer = sgd(model, 0.001)
        for _ in range(steps):
            rows = model(torch.randn(3, 6, 4))
            value = loss(rows[0], rows[1], rows[2])
            optimizer.zero_grad()
            (value + 0.1 * rows.square().mean()).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(MarginLoss) if isinstance(one, MarginLoss)]


def test_every_eighth_value_of_a_loss_with_a_margin_is_reported() -> None:
    for loss in (nn.TripletMarginLoss(0.5), OwnTripletLoss(0.5)):
        [one] = found(loss, 201)
        assert (one.loss, one.margin, one.calls) == (type(loss).__name__, 0.5, 200)
        assert len(one.values) == 25
        assert "test_margins.py" in (one.location or "")


def test_losses_without_a_margin_are_not_read() -> None:
    assert found(OwnTripletLoss(0.0), 201) == []
