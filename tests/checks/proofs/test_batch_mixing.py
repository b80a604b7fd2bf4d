"""Models that mix the rows of a batch."""

from __future__ import annotations

import pytest
import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Attends(nn.Module):
    """Attention over (batch, time, feature)."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.attention(x, x, x)[0].mean(1))


def sequences() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(16, 5, 8)
    return [(x, (x[:, :, 0].mean(1) > 0).long())]


def test_attention_over_the_batch_axis_is_found() -> None:
    found = finding("STR707", Attends(batch_first=False), sequences(), LOSS)
    assert found.severity == "error"
    assert "attention" in found.message


def test_attention_over_time_is_no_fault() -> None:
    assert passes("STR707", Attends(batch_first=True), sequences(), LOSS)


def test_a_view_that_mixes_rows_is_found() -> None:
    class Mixes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x.t().reshape(x.shape))

    assert finding("STR707", Mixes(), table(), LOSS).severity == "error"


def test_batch_normalization_is_no_fault() -> None:
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    assert result("STR707", model, table(), LOSS).found == ()


def test_dropout_is_no_fault() -> None:
    model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    assert passes("STR707", model, table(), LOSS)


def test_a_model_without_a_row_for_each_row_is_not_judged() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).mean(0, keepdim=True).expand(2, -1)

    made = result("STR707", Whole(), [(x, y[:2]) for x, y in table()], LOSS)
    assert made.state == "not_applicable"


class Masked(nn.Module):
    """Attention over (batch, time, feature) with a mask that the script passes."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.head(self.attention(x, x, x, attn_mask=mask)[0].mean(1))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_a_mask_as_long_as_the_batch_is_no_row_of_it(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 16, 8)
    hidden = torch.ones(16, 16).triu(1)
    mask = hidden.bool() if kind == torch.bool else hidden * -1e9
    assert passes("STR707", Masked(), [(x, mask, (x[:, :, 0].mean(1) > 0).long())], LOSS)


def test_rows_of_truth_values_are_compared() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x.float() - x.float().mean(0))

    batches = [(x > 0, y) for x, y in table()]
    assert finding("STR707", Counts(), batches, LOSS).severity == "error"


class Graph(nn.Module):
    """Gives each node the mean of its neighbors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
        return self.body(neighbors @ x)


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo])
def test_nodes_of_a_graph_are_not_judged(layout: torch.layout) -> None:
    near = (torch.arange(16)[:, None] - torch.arange(16)).abs() < 3
    neighbors = near / near.sum(1, keepdim=True)
    if layout != torch.strided:
        neighbors = neighbors.to_sparse()
    batches = [(x, neighbors, y) for x, y in table()]
    assert result("STR707", Graph(), batches, LOSS).state == "not_applicable"
    assert passes("PRE101", Graph(), batches, LOSS)
    assert passes("PRE106", Graph(), batches, LOSS)


@pytest.mark.parametrize("with_itself", [True, False])
def test_nor_are_those_of_a_directed_graph(with_itself: bool) -> None:
    near = torch.arange(16)[:, None] - torch.arange(16) == 1
    edges = (near + torch.eye(16) if with_itself else near.float()) / 2
    batches = [(x, edges, y) for x, y in table()]
    assert result("STR707", Graph(), batches, LOSS).state == "not_applicable"
