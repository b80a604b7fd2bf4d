"""Assertions about models: one that holds and one that fails, with the finding's text."""

from __future__ import annotations

import pytest
import torch
from tests.checks.checked import network, table
from torch import nn

from mothtrap.testing import asserts

LOSS = nn.CrossEntropyLoss()


class Detached(nn.Module):
    """Two layers without a graph between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).detach())


@pytest.mark.parametrize(
    "holds",
    [
        asserts.assert_gradients_reach_all,
        asserts.assert_rows_independent,
        asserts.assert_initial_loss,
        asserts.assert_evaluation_repeatable,
    ],
)
def test_an_ordinary_network_passes(holds: object) -> None:
    holds(network(), table(), LOSS)


def test_learning_is_asserted_with_the_own_optimizer() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    asserts.assert_overfits(model, table(), LOSS, optimizer=optimizer)
    asserts.assert_uses_input(model, table(), LOSS, optimizer=optimizer)


def test_a_failure_has_the_text_of_the_finding() -> None:
    with pytest.raises(AssertionError, match="PRE101: layer first got no gradient"):
        asserts.assert_gradients_reach_all(Detached(), table(), LOSS)


def test_what_cannot_be_decided_fails_with_the_reason() -> None:
    with pytest.raises(AssertionError, match="PRE102 could not decide: the targets are not"):
        asserts.assert_causal(network(), table(), LOSS)
