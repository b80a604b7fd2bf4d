"""Gradients of micro-batches that a compiled step adds up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

optax = pytest.importorskip("optax")

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.trainers import SummedGradients  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

PARTS = 3
X = np.random.default_rng(0).normal(size=(PARTS, 8, 4)).astype(np.float32)
optimizer = optax.adam(0.01)


def loss_fn(w: Any, x: Any) -> Any:
    return ((x @ w - 1) ** 2).mean()


def add(one: Any, other: Any) -> Any:
    return jax.tree.map(jnp.add, one, other)


def in_a_loop(w: Any, x: Any) -> Any:
    """Add up gradients in a `scan`, whose carry begins with zeros."""

    def body(carry: Any, rows: Any) -> Any:
        total, sums = carry
        loss, gradients = jax.value_and_grad(loss_fn)(w, rows)
        return (total + loss, add(sums, gradients)), None

    zeros = jax.tree.map(jnp.zeros_like, w)
    return jax.lax.scan(body, (0.0, zeros), x)[0]


def one_by_one(w: Any, x: Any) -> Any:
    """Add up gradients in a Python loop."""
    total, sums = 0.0, None
    for rows in x:
        loss, gradients = jax.value_and_grad(loss_fn)(w, rows)
        sums, total = gradients if sums is None else add(sums, gradients), total + loss
    return total, sums


def two_losses(w: Any, x: Any) -> Any:
    """Add the gradients of two different losses."""
    first, one = jax.value_and_grad(loss_fn)(w, x[0])
    second, other = jax.value_and_grad(lambda w: 0.1 * (w**2).mean())(w)
    return first + second, add(one, other)


def found(accumulate: Callable[..., Any], *, divided: float = 1.0) -> list[SummedGradients]:
    def step(w: Any, state: Any, x: Any) -> Any:
        total, sums = accumulate(w, x)
        if divided != 1:
            sums = jax.tree.map(lambda one: one / divided, sums)
        updates, state = optimizer.update(sums, state)
        return (
            optax.apply_updates(w, updates),
            state,
            total / PARTS if accumulate is in_a_loop else total,
        )

    process = Process("jax")
    with process.watched(ADAPTER):
        compiled, w = jax.jit(step), jnp.ones(4)
        state = optimizer.init(w)
        for _ in range(4):
            w, state, _ = compiled(w, state, X)
    return [one for one in process.facts() if isinstance(one, SummedGradients)]


@pytest.mark.parametrize("accumulate", [in_a_loop, one_by_one])
def test_sums_of_gradients_are_reported(accumulate: Callable[..., Any]) -> None:
    [one] = found(accumulate)
    assert (one.micro_batches, one.adaptive) == (PARTS, True)
    assert found(accumulate, divided=PARTS) == []


def test_gradients_of_two_losses_are_no_micro_batches() -> None:
    assert found(two_losses) == []


def test_a_loop_of_steps_adds_no_gradients() -> None:
    def epoch(w: Any, x: Any) -> Any:
        def body(w: Any, rows: Any) -> Any:
            loss, gradient = jax.value_and_grad(loss_fn)(w, rows)
            return w - 0.1 * gradient, loss

        return jax.lax.scan(body, w, x)

    process = Process("jax")
    with process.watched(ADAPTER):
        jax.jit(epoch)(jnp.ones(4), X)
    assert not [one for one in process.facts() if isinstance(one, SummedGradients)]
