"""The first step of a loop inside a compiled function is observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.compiling import UpdateDropped  # noqa: E402
from mothtrap.core.facts.data import TargetOrder  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 40)
TX = optax.adam(1e-2)


def loss_fn(params: Any, x: Any, y: Any) -> Any:
    logits = jax.nn.softmax(x @ params["w"] + params["b"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def step(params: Any, state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = TX.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


def scanned(params: Any, state: Any, x: Any, y: Any) -> Any:
    def body(carry: Any, batch: Any) -> Any:
        *carry, loss = step(*carry, *batch)
        return tuple(carry), loss

    batches = x.reshape(5, 8, 6), y.reshape(5, 8)
    (params, state), losses = jax.lax.scan(body, (params, state), batches)
    return params, state, losses


def of_a_compiled_step(params: Any, state: Any, x: Any, y: Any) -> Any:
    compiled = jax.jit(step)

    def body(number: Any, carry: Any) -> Any:
        bx = jax.lax.dynamic_slice_in_dim(x, number * 8, 8)
        by = jax.lax.dynamic_slice_in_dim(y, number * 8, 8)
        return compiled(*carry, bx, by)[:2]

    return (*jax.lax.fori_loop(0, 5, body, (params, state)), jnp.zeros(()))


def nested(params: Any, state: Any, x: Any, y: Any) -> Any:
    def epoch(carry: Any, _: Any) -> Any:
        *carry, losses = scanned(*carry, x, y)
        return tuple(carry), losses.mean()

    (params, state), losses = jax.lax.scan(epoch, (params, state), None, length=2)
    return params, state, losses


def train(make: Any, keep: tuple[int, ...] = (0, 1), calls: int = 10) -> Process:
    process = Process("jax")
    with process.watched(ADAPTER):
        params = {"w": jnp.ones((6, 3)) * 0.1, "b": jnp.zeros(3)}
        carried, compiled = [params, TX.init(params)], jax.jit(make)
        for _ in range(calls):
            out = compiled(*carried, X, Y)
            for place in keep:
                carried[place] = out[place]
    return process


@pytest.mark.parametrize("make", [scanned, of_a_compiled_step, nested])
def test_the_loss_inside_a_loop(make: Any) -> None:
    facts = list(train(make).facts())
    calls = [one for one in facts if isinstance(one, LossCall)]
    assert calls
    assert {(one.chain, one.classes) for one in calls} == {(("softmax",), 3)}
    assert {one.prediction_shape for one in calls} == {(8, 3)}
    assert not [one for one in facts if isinstance(one, TargetOrder)]


@pytest.mark.parametrize(
    ("keep", "expected"), [((0, 1), []), ((1,), [""]), ((0,), ["state"]), ((), [])]
)
def test_results_of_a_loop_that_are_not_passed_on(
    keep: tuple[int, ...], expected: list[str]
) -> None:
    """A loop that gets everything anew is a training run that is repeated."""
    process = train(scanned, keep)
    assert [one.state for one in process.facts() if isinstance(one, UpdateDropped)] == expected


def test_the_weights_are_the_same_as_without_observation() -> None:
    def run(watched: bool) -> Any:
        process = Process("jax")
        params = {"w": jnp.ones((6, 3)) * 0.1, "b": jnp.zeros(3)}
        state = TX.init(params)
        if watched:
            with process.watched(ADAPTER):
                return jax.jit(scanned)(*jax.jit(scanned)(params, state, X, Y)[:2], X, Y)
        return jax.jit(scanned)(*jax.jit(scanned)(params, state, X, Y)[:2], X, Y)

    one, other = run(watched=True), run(watched=False)
    assert all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))
