from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.layers import PositionAxis


class Positions(nn.Module):
    def __init__(self, axis: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(32, 8))
        self.dropout, self.axis = nn.Dropout(dropout), axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = self.table[: x.size(self.axis)]
        return self.dropout(x + (table if self.axis == 1 else table.unsqueeze(1)))


class Reader(nn.Module):
    def __init__(self, axis: int, dropout: float, batch_first: bool | None) -> None:
        super().__init__()
        self.positions = Positions(axis, dropout)
        self.rnn = None if batch_first is None else nn.GRU(8, 8, batch_first=batch_first)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.positions(x)
        return self.head(x if self.rnn is None else self.rnn(x)[0]).mean(1)


def told(model: Reader, *, loader: bool = False) -> set[tuple[str, tuple[int, ...]]]:
    optimizer = sgd(model)
    rows = torch.randn(20, 7, 8)
    batches = DataLoader(TensorDataset(rows), batch_size=5) if loader else [(rows[:5],)] * 3
    with watched() as seen:
        for (x,) in batches:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    found = [one for one in seen.observed(PositionAxis) if isinstance(one, PositionAxis)]
    return {(one.module, one.shape) for one in found}


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_vectors_that_differ_along_the_batch_are_told(dropout: float) -> None:
    expected = {("positions", (5, 7, 8))}
    assert told(Reader(0, dropout, batch_first=True)) == expected
    assert told(Reader(0, dropout, batch_first=None), loader=True) == expected


@pytest.mark.parametrize(
    ("axis", "batch_first"), [(1, True), (0, False), (0, None), (1, None)], ids=str
)
def test_vectors_along_the_sequence_are_not_told(axis: int, batch_first: bool | None) -> None:
    assert told(Reader(axis, 0.3, batch_first)) == set()
