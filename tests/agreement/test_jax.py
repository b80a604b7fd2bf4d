"""JAX's facts of the batch."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402
from tests.agreement import batch, golden, stored  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def loss_of(kind: str) -> Any:
    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ params["first"]["w"] + params["first"]["b"])
        output = hidden @ params["second"]["w"] + params["second"]["b"]
        if kind == "classes":
            return optax.softmax_cross_entropy_with_integer_labels(output, y).mean()
        return optax.squared_error(output, y).mean()

    return loss


def train(kind: str) -> Process:
    """Make a few steps on the batch, each followed by an evaluation."""
    process = Process("jax")
    with process.watched(ADAPTER):
        last_weight, last_bias = map(jnp.asarray, batch.last_layer(kind))
        params = {
            "first": {"w": jnp.asarray(batch.W1), "b": jnp.asarray(batch.B1)},
            "second": {"w": last_weight, "b": last_bias},
        }
        x, y = batch.data(kind)
        loss = loss_of(kind)
        optimizer = optax.sgd(batch.RATE)
        state = optimizer.init(params)

        @jax.jit
        def update(params: Any, state: Any, x: Any, y: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params, x, y)
            updates, state = optimizer.update(gradients, state)
            return optax.apply_updates(params, updates), state, value

        @jax.jit
        def evaluate(params: Any, x: Any, y: Any) -> Any:
            return {"loss": loss(params, x, y)}

        for _ in range(batch.STEPS):
            params, state, _ = update(params, state, x, y)
            evaluate(params, x, y)
    return process


@pytest.mark.smoke
@pytest.mark.parametrize("kind", stored.KINDS)
def test_facts_agree(kind: str) -> None:
    facts = train(kind).facts()
    stored.assert_agrees("jax", kind, facts)
    golden.assert_unchanged("jax", kind, facts)
