"""States of optimizers that start anew while the weights go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.compiling import UpdateDropped  # noqa: E402
from mothtrap.core.facts.optimizers import OptimizerFacts  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("restarts", "expected"), [("never", 0), ("each step", 6), ("each pass", 3), ("some steps", 0)]
)
def test_a_state_that_starts_anew(restarts: str, expected: int) -> None:
    """Optimizers that only step every few calls are no fault."""
    tx: Any = optax.adam(0.1)
    tx = optax.MultiSteps(tx, 4) if restarts == "some steps" else tx
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def step(w: Any, state: Any, x: Any) -> Any:
            if restarts == "each step":
                state = tx.init(w)
            loss, grads = jax.value_and_grad(lambda w: ((x @ w - 1.0) ** 2).mean())(w)
            updates, state = tx.update(grads, state, w)
            return optax.apply_updates(w, updates), state, loss

        w = jnp.ones(3)
        state = tx.init(w)
        for number in range(12):
            if restarts == "each pass" and not number % 3:
                state = tx.init(w)
            w, state, _ = step(w, state, X)
    found = [one for one in process.facts() if isinstance(one, OptimizerFacts) and one.takes_over]
    assert len(found) >= expected
    assert bool(found) is bool(expected)
    assert all(one.second_moments for one in found)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_state_that_is_returned_as_it_was(keeps: bool) -> None:
    tx, process = optax.adam(0.1), Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def step(w: Any, state: Any, x: Any) -> Any:
            loss, grads = jax.value_and_grad(lambda w: ((x @ w - 1.0) ** 2).mean())(w)
            updates, new = tx.update(grads, state, w)
            return optax.apply_updates(w, updates), state if keeps else new, loss

        w = jnp.ones(3)
        state = tx.init(w)
        for _ in range(12):
            w, state, _ = step(w, state, X)
    found = [one for one in process.facts() if isinstance(one, UpdateDropped)]
    assert [one.state for one in found if one.why] == (["opt_state"] if keeps else [])


@pytest.mark.parametrize("assigned", [True, False])
def test_a_state_that_the_script_does_not_pass_on(assigned: bool) -> None:
    """The weights and the state are leaves of one argument, as in `eqx.filter_jit`."""
    tx, process = optax.adam(0.1), Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def step(both: Any, x: Any) -> Any:
            w, state = both
            loss, grads = jax.value_and_grad(lambda w: ((x @ w - 1.0) ** 2).mean())(w)
            updates, state = tx.update(grads, state, w)
            return optax.apply_updates(w, updates), state, loss

        w = jnp.ones(3)
        state = tx.init(w)
        for _ in range(12):
            w, new, _ = step((w, state), X)
            state = new if assigned else state
    assert not [one for one in process.facts() if isinstance(one, OptimizerFacts)]
    found = [one for one in process.facts() if isinstance(one, UpdateDropped)]
    assert {one.state for one in found} == (set() if assigned else {"opt_state"})
