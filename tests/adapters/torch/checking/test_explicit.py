"""Losses that the user passes to `mothtrap.check`."""

from __future__ import annotations

import functools

import pytest
from tests.checks.checked import network, passes, table
from torch.nn import functional

LOSSES = {
    "function": functional.cross_entropy,
    "partial": functools.partial(functional.cross_entropy, label_smoothing=0.01),
    "own": lambda output, target: functional.cross_entropy(output, target),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_the_call_of_a_loss_function_is_observed(kind: str) -> None:
    """This includes a function that was looked up before the check replaced it in its module."""
    assert passes("PRE107", network(), table(), LOSSES[kind])
