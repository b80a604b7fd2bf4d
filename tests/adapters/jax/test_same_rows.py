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


def fitted(params: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] - y) ** 2))(params)
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), loss


def train(batches: Any, steps: int = 40) -> list[OneBatchUsed]:
    process = Process("jax")
    with process.watched(ADAPTER):
        params, compiled = {"w": jnp.zeros((4, 1))}, jax.jit(fitted)
        for _ in range(steps):
            params, _ = compiled(params, *next(batches))
    return [one for one in process.facts() if isinstance(one, OneBatchUsed)]


def cut(x: Any, y: Any, *, moves: bool) -> Any:
    """Draw a new order for each pass; without `moves`, all batches of a pass are the first."""
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(len(x))
        for i in range(len(x) // 8):
            chosen = order[i * 8 : i * 8 + 8] if moves else order[:8]
            yield x[chosen], y[chosen]


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_batches_cut_at_the_same_place_are_told(array: Any) -> None:
    x = np.random.default_rng(1).normal(size=(160, 4)).astype(np.float32)
    [seen] = train(cut(array(x), array(x[:, :1]), moves=False))
    assert (seen.loader, seen.rows, seen.of_rows, seen.source) == ("fitted", 8, 160, "x")
    assert train(cut(array(x), array(x[:, :1]), moves=True)) == []


def test_the_whole_data_as_a_new_array_in_each_step_is_meant() -> None:
    def every() -> Any:
        while True:
            yield jnp.asarray(X), jnp.asarray(X[:, :1])

    assert train(every()) == []


def test_a_part_of_the_data_that_the_script_holds_is_meant() -> None:
    x = np.random.default_rng(1).normal(size=(160, 4)).astype(np.float32)

    def few(part: Any) -> Any:
        while True:
            yield jnp.array(part), jnp.array(part[:, :1])
        return x

    assert train(few(x[:8])) == []


def test_fixed_points_are_meant() -> None:
    mesh = np.random.default_rng(2).normal(size=(4000, 4))

    def points() -> Any:
        while True:
            at = jnp.stack([jnp.linspace(0, 1, 50)] * 4, axis=1)
            yield at, jnp.sin(at[:, :1])
        return mesh

    assert train(points()) == []


def test_an_iterator_made_in_each_step_is_told() -> None:
    loader = [(X[i : i + 8], X[i : i + 8, :1]) for i in range(0, 64, 8)]

    class Loader:
        def __len__(self) -> int:
            return len(loader)

        def __iter__(self) -> Any:
            return ((x.copy(), y.copy()) for x, y in loader)

    process, data = Process("jax"), Loader()
    with process.watched(ADAPTER):
        params, compiled = {"w": jnp.zeros((4, 1))}, jax.jit(fitted)
        for _ in range(20):
            x, y = next(iter(data))
            params, _ = compiled(params, x, y)
    [seen] = [one for one in process.facts() if isinstance(one, OneBatchUsed)]
    assert (seen.source, seen.unused, seen.rows) == ("data", 7, 8)


def test_moments_in_another_structure_are_no_batch() -> None:
    """The function gets a flat list, and returns a tree, as `nnx.jit` does."""

    def update(leaves: Any, x: Any) -> Any:
        params, momentum = leaves
        loss, grads = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(params)
        momentum = 0.9 * momentum + grads
        return {"w": params - 0.01 * momentum, "m": momentum, "loss": loss}

    process, index = Process("jax"), 0
    out = {"w": jnp.ones((4, 40)), "m": jnp.zeros((4, 40))}
    with process.watched(ADAPTER):
        compiled = jax.jit(update)
        for _ in range(20):
            out = compiled([out["w"], out["m"]], X[index : index + 8])
    [seen] = [one for one in process.facts() if isinstance(one, OneBatchUsed)]
    assert (seen.rows, seen.source) == (8, "X")
