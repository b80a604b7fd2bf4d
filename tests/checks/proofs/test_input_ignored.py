"""Models that ignore their input."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Blind(nn.Module):
    """A classifier that multiplies its input with 0."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(torch.zeros_like(x))


def test_a_model_that_never_sees_its_input_is_found() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(32, 6), (torch.arange(32) > 28).long()
    model = Blind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    found = finding("PRE105", model, [(x, y)], LOSS, optimizer=optimizer)
    assert found.severity == "error"


def test_a_model_that_looks_is_no_fault() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    assert passes("PRE105", model, table(), LOSS, optimizer=optimizer)


def test_masks_of_dropout_do_not_stand_in_for_the_input() -> None:
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    assert passes("PRE105", model, table(), LOSS, optimizer=optimizer)


def test_rows_that_are_all_alike_are_found_at_once() -> None:
    batches = [(torch.ones_like(x), y) for x, y in table()]
    assert "same input" in finding("PRE105", network(), batches, LOSS).message


def test_a_loss_that_hardly_falls_is_not_judged() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    made = result("PRE105", model, table(), LOSS, optimizer=optimizer)
    assert made.state == "not_enough_data"
