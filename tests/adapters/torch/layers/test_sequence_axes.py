from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.layers import SequenceAxes


class Reader(nn.Module):
    def __init__(self, kind: str, batch_first: bool) -> None:
        super().__init__()
        self.attends = kind == "attention"
        self.layer = (
            nn.MultiheadAttention(8, 2, batch_first=batch_first)
            if self.attends
            else nn.GRU(8, 8, batch_first=batch_first)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.layer(x, x, x) if self.attends else self.layer(x))[0]


@pytest.mark.parametrize("kind", ["recurrence", "attention"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_modules_that_take_axis_0_for_the_sequence_are_told(kind: str, batch_first: bool) -> None:
    model = Reader(kind, batch_first)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 3, 8)).square().mean().backward()
            optimizer.step()
    found = [one for one in seen.observed(SequenceAxes) if isinstance(one, SequenceAxes)]
    if batch_first:
        assert not found
        return
    assert {(one.module, one.shape) for one in found} == {("layer", (5, 3, 8))}
    assert {one.module_type for one in found} == {type(model.layer).__name__}


def test_the_samples_of_a_loader_are_counted() -> None:
    model = Reader("recurrence", batch_first=False)
    optimizer = sgd(model)
    loader = DataLoader(TensorDataset(torch.randn(20, 3, 8)), batch_size=5, shuffle=True)
    with watched() as seen:
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    found = [one for one in seen.observed(SequenceAxes) if isinstance(one, SequenceAxes)]
    assert {one.samples for one in found} == {5}
