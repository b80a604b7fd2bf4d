"""Trainings of every kind end with the same bits as without mothtrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("equinox")

from tests.adapters.jax.training import PROGRAMS, STEPS, as_bytes

from mothtrap.adapters.jax import ADAPTER
from mothtrap.capture.depths import Depths
from mothtrap.core.facts.captures import ToolError
from mothtrap.testing.adapters import Process

MADE = {"two_players": 2 * STEPS, "scanned": 3 * STEPS, "nothing_compiled": 4}
"""Number of steps of the programs that make more or fewer steps than the others."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_weights_are_bit_identical(name: str) -> None:
    train = PROGRAMS[name]
    plain = as_bytes(train())
    assert plain == as_bytes(train()), "not the same twice without mothtrap"
    watched_in_full(train, plain, every=3)
    process = Process("jax")
    with process.watched(ADAPTER):
        assert as_bytes(train()) == plain
    assert not [fact for fact in process.facts() if isinstance(fact, ToolError)], process.said
    assert [step for step, _ in process.steps()] == list(range(MADE.get(name, STEPS)))


def watched_in_full(train: Callable[[], Any], plain: bytes, *, every: int) -> None:
    process = Process("jax")
    with pytest.MonkeyPatch.context() as patch, process.watched(ADAPTER):
        patch.setattr(Depths, "is_full", lambda _, step: step % every == 0)
        assert as_bytes(train()) == plain, f"each {every}th step in full"
