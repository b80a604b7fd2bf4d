"""Targets that a step computes before its loss, which only the source shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import EvaluatedCopy  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

RNG = np.random.default_rng(0)


def values(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["in"]) @ params["out"]


def test_a_target_that_is_computed_before_the_loss_is_seen_in_the_source() -> None:
    gamma = 0.9

    def update(state: Any, x: Any, reward: Any, after: Any) -> Any:
        goal = reward + gamma * values(state["target"], after).max(axis=1)

        def loss_of(params: Any) -> Any:
            return jnp.mean((values(params, x)[:, 0] - goal) ** 2)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        params = jax.tree.map(lambda w, g: w - 0.1 * g, state["params"], grads)
        return {"params": params, "target": state["target"]}, loss

    process = Process("jax")
    with process.watched(ADAPTER):
        weights = {"in": jnp.ones((4, 8)), "out": jnp.ones((8, 2))}
        state: Any = {"params": weights, "target": jax.tree.map(jnp.copy, weights)}
        step = jax.jit(update)
        for _ in range(8):
            x, after = (RNG.normal(size=(16, 4)).astype(np.float32) for _ in range(2))
            state, _ = step(state, x, np.ones(16, np.float32), after)
    found = [one for one in process.facts() if isinstance(one, EvaluatedCopy)]
    assert {one.module for one in found} == {"target of update"}
    assert len({one.digest for one in found}) == 1
    assert len(found) > 4
