"""Programs that compute no gradient of any parameter."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.captures import Blind  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


@pytest.mark.parametrize("compiled", [True, False])
def test_an_empty_tree_is_said_and_does_not_end_the_observation(compiled: bool) -> None:
    x = jnp.ones((8, 3))
    optimizer = optax.sgd(0.1)

    def step(parameters, state):
        value, gradients = jax.value_and_grad(lambda _: (x * 2).mean())(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    process = Process("jax")
    with process.watched(ADAPTER):
        run = jax.jit(step) if compiled else step
        state = optimizer.init({})
        for _ in range(3):
            _, state, _ = run({}, state)
        unstepped = [f for f in process.recorder.notes.unstepped if isinstance(f, Blind)]
        assert not process.recorder.containment.failures
    [said] = unstepped
    assert "is computed with respect to no parameter" in said.reason
    assert "test_nothing_trainable.py" in said.reason
