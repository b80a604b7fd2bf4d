"""Trainings that together produce every kind of report of the adapter at least once."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tests.adapters.jax.training import PROGRAMS, data, descend, loss_fn, weights


def evaluated() -> Any:
    """Train with an evaluation in between, whose targets come in sorted order."""

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    @jax.jit
    def evaluate(params: Any, x: Any, y: Any) -> Any:
        return {"loss": loss_fn(params, x, y)}

    params = weights()
    for x, y in data():
        params, _ = update(params, x, y)
        evaluate(params, x, y)
    return params


def evaluated_with_totals() -> Any:
    """Evaluate with totals that each call passes on to the next, donating the old ones."""

    @functools.partial(jax.jit, donate_argnums=1)
    def evaluate(params: Any, totals: Any, x: Any, y: Any) -> Any:
        loss = loss_fn(params, x, y)
        return {"loss": loss}, {"sum": totals["sum"] + loss, "count": totals["count"] + 1.0}

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    params = weights()
    for x, y in data(steps=3):
        params, _ = update(params, x, y)
        totals = {"sum": jnp.zeros(()), "count": jnp.zeros(())}
        for _ in range(2):
            _, totals = evaluate(params, totals, x, y)
    return params


def cut_off() -> Any:
    """Train a network with a tanh and a group of weights that the loss does not depend on."""

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            hidden = jnp.tanh(x @ params["first"]["w"])
            logits = jax.lax.stop_gradient(hidden) @ params["second"]["w"]
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        value, grads = jax.value_and_grad(loss)(params)
        return descend(params, grads), value

    params = weights()
    for x, y in data(steps=45):
        params, _ = update(params, x, y)
    return params


def alike() -> Any:
    """Train a two-layer network in which units of a layer start out identical."""

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    params = weights()
    params["first"]["w"] = jnp.full((6, 16), 0.1)
    params["second"]["w"] = jnp.broadcast_to(params["second"]["w"][:1], (16, 3))
    for x, y in data():
        params, _ = update(params, x, y)
    return params


def infinite() -> Any:
    """Train on data with a NaN, and with a negative value under a logarithm."""

    @jax.jit
    def update(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(lambda w: (jnp.log(x[:, 0]) * (x @ w)).mean())(w)
        return w - 0.1 * grad, value

    w = jnp.ones(3)
    for step in range(4):
        x = np.ones((4, 3), np.float32)
        x[2, 0], x[1, 1] = (-1.0, np.nan) if step == 3 else (1.0, 1.0)
        w, _ = update(w, x)
    return w


def careless() -> Any:
    """Use the same key and the same weights in each step, which calls back into Python."""

    @jax.jit
    def update(w: Any, x: Any, key: Any) -> Any:
        noise = jax.random.normal(key, x.shape)
        value, grad = jax.value_and_grad(lambda w: ((x + noise) @ w).mean())(w)
        return w - 0.1 * grad, value

    w, key = jnp.ones(3), jax.random.PRNGKey(0)
    for _ in range(40):
        update(w, np.ones((4, 3), np.float32), key)
    return w


def compiled_anew() -> Any:
    """Train with a batch of a different size in each step, so that every step is compiled anew."""

    @jax.jit
    def update(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(lambda w: (x @ w).mean())(w)
        return w - 0.1 * grad, value

    w = jnp.ones(3)
    for rows in range(1, 10):
        w, _ = update(w, np.ones((rows, 3), np.float32))
    return w


def patterned() -> Any:
    """Train with a target that has a gradient, a wrong reshape, and a mask without effect."""

    @jax.jit
    def update(w: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            moved = jnp.tanh((x[None] * y[:, None, None]) @ w).reshape(6, 4, 6)
            scores = moved @ moved.swapaxes(1, 2) + jnp.tril(jnp.ones((4, 4)))
            seen = jax.nn.softmax(scores) @ moved
            values = (x @ w).max(axis=1)
            target = y[0] + x[:, 0] + 0.9 * ((x + 1.0) @ w).max(axis=1)
            wrong = ((moved.reshape(4, 6, 6) - x[None, :6, :6]) ** 2).sum()
            return ((values - target) ** 2).mean() + wrong + seen.mean()

        value, grad = jax.value_and_grad(loss)(w)
        return w - 1e-4 * grad, value

    w, rows = jnp.eye(6), np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    for _ in range(30):
        w, _ = update(w, rows, np.arange(4, dtype=np.float32))
    return w


def evaluated_on_training_rows() -> Any:
    """Evaluate on rows that were trained on."""

    @jax.jit
    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        return descend(params, grads), loss

    @jax.jit
    def evaluate(params: Any, x: Any, y: Any) -> Any:
        return loss_fn(params, x, y)

    params, batches = weights(), list(data(steps=8))
    for _ in range(3):
        for x, y in batches:
            params, _ = update(params, x, y)
        evaluate(params, *batches[0])
    return params


TRAININGS = [
    evaluated,
    patterned,
    evaluated_on_training_rows,
    evaluated_with_totals,
    cut_off,
    alike,
    infinite,
    careless,
    compiled_anew,
    PROGRAMS["prints"],
    PROGRAMS["injected_rate"],
]
