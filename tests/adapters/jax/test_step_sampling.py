"""Full steps are inspected only as long as this stays within its share of the training time."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from mothtrap.adapters.jax import step_sampling
from mothtrap.adapters.jax.step_sampling import FREE_LOOKS, LookBudget

STEP_S = 0.05


def looked_at(share: float, look_s: float, steps: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many of `steps` full steps are inspected."""
    now = [0.0]
    monkeypatch.setattr(step_sampling.time, "process_time", lambda: now[0])
    budget, looks = LookBudget(share), 0
    for step in range(steps):
        if budget.allows(step):
            looks += 1
            with budget.look():
                now[0] += look_s
        now[0] += STEP_S
    return looks


def test_expensive_looks_take_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 5_000
    looks = looked_at(0.02, 2 * STEP_S, steps, monkeypatch)
    assert looks > FREE_LOOKS
    assert looks * 2 * STEP_S < step_sampling.FREE_S + 0.025 * steps * STEP_S


def test_cheap_looks_and_those_without_a_budget_are_all_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert looked_at(0.02, 1e-4, 300, monkeypatch) == 300
    assert looked_at(0.0, 1.0, 300, monkeypatch) == 300
