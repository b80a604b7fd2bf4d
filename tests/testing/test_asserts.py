"""Assertions about models: one that holds and one that fails, with the finding's text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
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


def test_the_size_of_a_model_is_asserted() -> None:
    asserts.assert_architecture(
        network(), table(), LOSS, layers=3, parameters=163, output_shape=(3,)
    )
    with pytest.raises(AssertionError, match="parameters 163, expected 164"):
        asserts.assert_architecture(network(), table(), LOSS, parameters=164)


def test_sets_that_share_a_row_are_not_disjoint() -> None:
    first, second, third = table()
    asserts.assert_disjoint([first], [second, third])
    with pytest.raises(AssertionError, match="16 of 32 evaluation rows"):
        asserts.assert_disjoint([first, second], [second, third])


def test_arrays_can_be_disjoint() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    asserts.assert_disjoint(rows[:20], rows[20:])
    with pytest.raises(AssertionError):
        asserts.assert_disjoint(rows[:30], rows[20:])


def test_targets_are_used() -> None:
    asserts.assert_targets_used(network(), table(), LOSS)


@pytest.mark.full
def test_a_script_passes_or_fails_with_its_verdict() -> None:
    programs = Path(__file__).parents[1] / "checks" / "programs"
    command = [sys.executable, str(programs / "tables.py")]
    asserts.assert_script_passes(command, ["PRE301", "PRE307"])
    with pytest.raises(AssertionError, match=r"(?i)evaluation\s+rows"):
        asserts.assert_script_passes([*command, "--leak"], ["PRE301"])
