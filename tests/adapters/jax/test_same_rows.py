"""Steps that cut the same rows out of their data in each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.data import OneBatchUsed  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def step(params: Any, index: Any, x: Any, size: int) -> Any:
    rows = jax.lax.dynamic_slice_in_dim(x, index * 8, size)

    def loss_of(params: Any) -> Any:
        return jnp.mean((rows @ params["w"] - rows[:, :1]) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), loss


def told(*, moves: bool, size: int = 8) -> list[tuple[int, int]]:
    process = Process("jax")
    with process.watched(ADAPTER):
        params, compiled = {"w": jnp.zeros((4, 1))}, jax.jit(step, static_argnums=3)
        for index in range(20):
            params, _ = compiled(params, index % 8 if moves else 0, X, size)
    return [(one.rows, one.of_rows) for one in process.facts() if isinstance(one, OneBatchUsed)]


def test_a_slice_that_never_moves_is_told() -> None:
    assert told(moves=False) == [(8, 64)]


def test_a_slice_that_moves_is_not() -> None:
    assert told(moves=True) == []


def test_the_training_part_of_all_rows_is_meant() -> None:
    assert told(moves=False, size=48) == []


def test_moments_of_an_optimizer_hold_no_rows() -> None:
    """A square weight and its momentum have as many columns as the batch, and more rows."""

    def update(params: Any, momentum: Any, x: Any, index: Any, size: int) -> Any:
        rows = jax.lax.dynamic_slice_in_dim(x, index * size, size)
        loss, grads = jax.value_and_grad(lambda w: jnp.mean((rows @ w) ** 2))(params)
        momentum = 0.9 * momentum + grads
        return params - 0.01 * momentum, momentum, loss

    params = jnp.asarray(np.random.default_rng(1).normal(size=(16, 16)))
    momentum, process = jnp.zeros_like(params), Process("jax")
    with process.watched(ADAPTER):
        compiled = jax.jit(update, static_argnums=4)
        for _ in range(20):
            params, momentum, _ = compiled(params, momentum, np.tile(X[:4], (1, 4)), 0, 2)
    assert not [one for one in process.facts() if isinstance(one, OneBatchUsed)]
