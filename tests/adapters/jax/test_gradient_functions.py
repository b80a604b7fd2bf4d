"""Compiled functions that only compute gradients, which the script applies itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.adapters.optax import ADAPTER as OPTAX  # noqa: E402
from mothtrap.core.facts.compiling import KeyReused, UpdateDropped  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.core.facts.optimizers import OptimizerFacts  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

STEPS, ROWS, CLASSES = 12, 16, 3
RNG = np.random.default_rng(0)


def batch() -> tuple[np.ndarray, np.ndarray]:
    return RNG.normal(size=(ROWS, 6)).astype(np.float32), RNG.integers(0, CLASSES, ROWS)


def trained(loss_of: Any, *, key: str = "new", micro_batches: int = 1) -> Process:
    """Train a linear model; only the gradients are compiled."""
    params, keys = {"w": jnp.zeros((6, CLASSES))}, jax.random.PRNGKey(0)
    process = Process("jax")
    with process.watched(ADAPTER):
        gradients_of = jax.jit(jax.value_and_grad(loss_of))
        for _ in range(STEPS):
            if key == "new":
                keys, sub = jax.random.split(keys)
            else:
                sub = keys
            for _ in range(micro_batches):
                _, grads = gradients_of(params, *batch(), sub)
            params = jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)
    return process


def logits(params: Any, x: Any, key: Any) -> Any:
    return (x * jax.random.bernoulli(key, 0.9, x.shape)) @ params["w"]


def sound(params: Any, x: Any, y: Any, key: Any) -> Any:
    log_RK = jax.nn.log_softmax(logits(params, x, key))
    return -jnp.take_along_axis(log_RK, y[:, None], axis=-1).mean()


def over_the_batch(params: Any, x: Any, y: Any, key: Any) -> Any:
    log_RK = jax.nn.log_softmax(logits(params, x, key), axis=0)
    return -jnp.take_along_axis(log_RK, y[:, None], axis=-1).mean()


def of(process: Process, kind: type) -> list[Any]:
    return [one for one in process.facts() if isinstance(one, kind)]


@pytest.mark.parametrize(("loss_of", "size"), [(sound, CLASSES), (over_the_batch, ROWS)])
def test_the_loss_is_described(loss_of: Any, size: int) -> None:
    process = trained(loss_of)
    calls = of(process, LossCall)
    assert calls
    assert {call.softmax_sizes for call in calls} == {(size,)}
    assert len({call.step for call in calls}) == len(calls) == STEPS
    assert sum(bool(record.optimizers) for record in process.records) == STEPS


def test_micro_batches_of_a_step_are_observed_once() -> None:
    process = trained(sound, micro_batches=3)
    assert len({call.step for call in of(process, LossCall)}) == len(of(process, LossCall))
    assert sum(bool(record.optimizers) for record in process.records) == STEPS


@pytest.mark.parametrize("key", ["new", "same"])
def test_a_key_used_in_each_step_is_reported(key: str) -> None:
    found = [one for one in of(trained(sound, key=key), KeyReused) if one.each_step]
    assert bool(found) is (key == "same")


@pytest.mark.parametrize("assigned", [True, False])
def test_updates_that_the_script_throws_away_are_reported(assigned: bool) -> None:
    optimizer, process = optax.sgd(0.1), Process("jax")
    params = {"w": jnp.zeros((6, CLASSES))}
    with process.watched(ADAPTER), process.watched(OPTAX):
        gradients_of = jax.jit(jax.grad(sound))
        state = optimizer.init(params)
        for _ in range(64):
            grads = gradients_of(params, *batch(), jax.random.PRNGKey(0))
            updates, state = optimizer.update(grads, state)
            new = optax.apply_updates(params, updates)
            params = new if assigned else params
    found = [one for one in of(process, UpdateDropped) if "apply_updates" in one.function]
    assert [one.calls for one in found] == ([] if assigned else [64])


def test_trained_weights_that_are_adapted_to_many_tasks_are_not_reported() -> None:
    optimizer, process = optax.sgd(0.1), Process("jax")
    params = {"w": jnp.zeros((6, CLASSES))}
    with process.watched(ADAPTER), process.watched(OPTAX):
        gradients_of = jax.jit(jax.grad(sound))
        state = optimizer.init(params)
        for step in range(70):
            grads = gradients_of(params, *batch(), jax.random.PRNGKey(0))
            updates, state = optimizer.update(grads, state)
            adapted = optax.apply_updates(params, updates)
            params = adapted if step < 2 else params
    assert not of(process, UpdateDropped)


@pytest.mark.parametrize(
    ("created", "expected"), [("once", 0), ("each step", 11), ("each pass", 3), ("each task", 0)]
)
def test_a_state_that_the_script_creates_again(created: str, expected: int) -> None:
    """An inner loop over tasks starts from weights that another optimizer trains."""
    optimizer, outer, process = optax.adam(0.1), optax.sgd(0.1), Process("jax")
    params = {"w": jnp.zeros((6, CLASSES))}
    with process.watched(ADAPTER), process.watched(OPTAX):
        gradients_of = jax.jit(jax.grad(sound))
        state, outer_state = outer.init(params), outer.init(params)
        for step in range(STEPS):
            if (
                not step
                or created in ("each step", "each task")
                or (created == "each pass" and step % 3 == 0)
            ):
                state = optimizer.init(params)
            grads = gradients_of(params, *batch(), jax.random.PRNGKey(0))
            updates, state = optimizer.update(grads, state)
            new = optax.apply_updates(params, updates)
            if created == "each task":
                updates, outer_state = outer.update(grads, outer_state)
                new = optax.apply_updates(params, updates)
            params = new
    found = [one for one in of(process, OptimizerFacts) if one.takes_over]
    assert len(found) == expected
    assert all(one.momentum and one.location for one in found)
