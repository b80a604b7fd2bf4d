"""The source of a step function that ignores the ends of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import BootstrappedTargets  # noqa: E402
from mothtrap.core.facts.policies import UnreadEnds  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

GAMMA = 0.9


def update(params: Any, states: Any, rewards: Any, after: Any, dones: Any) -> Any:
    target = rewards + GAMMA * (after @ params)

    def loss_of(params: Any) -> Any:
        return jnp.mean((states @ params - target) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return params - 0.1 * grads, loss


def test_ends_that_are_never_read_are_told_once() -> None:
    process, random = Process("jax"), np.random.default_rng(0)
    with process.watched(ADAPTER):
        params, compiled = jnp.zeros(4), jax.jit(update)
        for _ in range(8):
            states, after = random.normal(size=(2, 8, 4)).astype(np.float32)
            params, _ = compiled(params, states, np.ones(8, np.float32), after, np.zeros(8))
    assert [one.steps for one in process.facts() if isinstance(one, BootstrappedTargets)] == [3]
    found = [one for one in process.facts() if isinstance(one, UnreadEnds)]
    assert [one.name for one in found] == ["dones"]
    assert "test_episode_ends.py" in (found[0].location or "")
