"""Evaluations that get the newest weights, but read others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import EvaluationPhase  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = X.sum(1)


def told(reads: str) -> list[bool]:
    """Return whether evaluations of a regression were told to use old weights."""
    process = Process("jax")
    with process.watched(ADAPTER):
        params = {"w": jnp.zeros(4), "b": jnp.zeros(())}

        def loss(params: Any, x: Any, y: Any) -> Any:
            return ((x @ params["w"] + params["b"] - y) ** 2).mean()

        @jax.jit
        def train_step(state: Any, x: Any, y: Any) -> Any:
            found, grads = jax.value_and_grad(loss)(state["params"], x, y)
            new = jax.tree.map(lambda p, g: p - 0.1 * g, state["params"], grads)
            return {"params": new}, found

        @jax.jit
        def eval_step(state: Any, x: Any, y: Any) -> Any:
            if reads == "old":
                return state, loss(params, x, y)
            if reads == "distance":
                moved = ((state["params"]["w"] - params["w"]) ** 2).sum()
                return state, moved + params["b"]
            if reads == "data":
                return state, (y**2).mean()
            return state, loss(state["params"], x, y)

        state = {"params": params}
        for step in range(12):
            rows = slice(8 * (step % 6), 8 * (step % 6) + 8)
            state, _ = train_step(state, X[rows], Y[rows])
            if step % 3 == 2:
                state, _ = eval_step(state, X[48:], Y[48:])
        train_step(state, X[:8], Y[:8])
    return [one.old_weights for one in process.facts() if isinstance(one, EvaluationPhase)]


def test_weights_from_outside_instead_of_the_given_ones() -> None:
    assert told("old") == [True] * 4


@pytest.mark.parametrize("reads", ["new", "distance", "data"])
def test_other_evaluations_are_fine(reads: str) -> None:
    assert told(reads) == [False] * 4
