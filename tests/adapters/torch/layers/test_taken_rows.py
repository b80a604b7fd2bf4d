from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.layers import RowTaken

Tensor = torch.Tensor
BATCH = LENGTH = 6


class Net(nn.Module):
    def __init__(self, rnn: nn.RNNBase, take: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.rnn, self.take = rnn, take
        self.head = nn.LazyLinear(2)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        found: Tensor = self.head(self.take(out))
        return found


def observed(
    rnn: nn.RNNBase, take: Callable[[Tensor], Tensor], *, batch: int = BATCH
) -> list[tuple[int, tuple[int, ...]]]:
    torch.manual_seed(0)
    net = Net(rnn, take)
    net(torch.randn(batch, LENGTH, 3))
    optimizer = sgd(net)
    with watched() as seen:
        for _ in range(12):
            scores = net(torch.randn(batch, LENGTH, 3))
            labels = torch.arange(scores.shape[0]) % 2
            optimizer.zero_grad()
            functional.cross_entropy(scores.reshape(len(labels), -1), labels).backward()
            optimizer.step()
        assert seen.failed() == []
    return [(one.found, one.shape) for one in seen.observed(RowTaken)]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both directions"])
def test_the_last_row_of_a_batch(kind: type[nn.RNNBase], *, both: bool) -> None:
    rnn = kind(3, 4, batch_first=True, bidirectional=both)
    assert observed(rnn, lambda out: out[-1]) == [(5, (BATCH, LENGTH, 8 if both else 4))]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_the_last_position(kind: type[nn.RNNBase]) -> None:
    assert observed(kind(3, 4, batch_first=True), lambda out: out[:, -1]) == []
    assert observed(kind(3, 4), lambda out: out[-1]) == []
    rows = kind(3, 4, batch_first=True)
    assert observed(rows, lambda out: torch.stack([row[-1] for row in out])) == []


def test_a_batch_of_one_row() -> None:
    assert observed(nn.LSTM(3, 4, batch_first=True), lambda out: out[-1], batch=1) == []
