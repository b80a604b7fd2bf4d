"""Values that a compiled function reads while it is traced."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.compiling import ValueReadOnce  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
rate = 0.1


def loss(w: Any, x: Any) -> Any:
    return ((x @ w - 1.0) ** 2).mean()


def told(process: Process) -> list[tuple[str, str]]:
    facts = [*process.facts(), *process.recorder.notes.unstepped]
    found = [one for one in facts if isinstance(one, ValueReadOnce)]
    return list(dict.fromkeys((one.name, one.kind) for one in found))


def test_weights_that_the_function_does_not_get_as_an_argument() -> None:
    process = Process("jax")
    with process.watched(ADAPTER):
        w = jnp.ones(3)

        @jax.jit
        def update(x: Any) -> Any:
            return w - 0.1 * jax.grad(loss)(w, x)

        for _ in range(20):
            w = update(X)
    assert told(process) == [("w", "array")]


@pytest.mark.parametrize("changes", [False, True])
def test_a_learning_rate_of_the_module(monkeypatch: pytest.MonkeyPatch, changes: bool) -> None:
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def update(w: Any, x: Any) -> Any:
            return w - rate * jax.grad(loss)(w, x)

        w = jnp.ones(3)
        for step in range(20):
            if changes:
                monkeypatch.setitem(globals(), "rate", 0.1 * 0.9**step)
            w = update(w, X)
    assert told(process) == ([("rate", "number")] if changes else [])


@pytest.mark.parametrize("inside", [False, True])
def test_random_numbers_of_numpy(inside: bool) -> None:
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def update(w: Any, x: Any) -> Any:
            if inside:
                x = x + np.random.normal(size=(8, 3))
            return w - 0.1 * jax.grad(loss)(w, x)

        w = jnp.ones(3)
        for _ in range(20):
            w = update(w, X + np.random.normal(size=(8, 3)).astype(np.float32))
    assert told(process) == ([("np.random.normal", "random")] if inside else [])


def test_weights_of_a_static_object() -> None:
    process = Process("jax")
    with process.watched(ADAPTER):

        class Agent:
            def __init__(self) -> None:
                self.w = jnp.ones(3)

            @functools.partial(jax.jit, static_argnums=0)
            def update(self, x: Any) -> Any:
                return self.w - 0.1 * jax.grad(loss)(self.w, x)

        agent = Agent()
        for _ in range(20):
            agent.w = agent.update(X)
    assert told(process) == [("self.w", "array")]


def test_scalars_among_the_values_are_read() -> None:
    process = Process("jax")
    state = {"w": jnp.ones(3), "count": jnp.zeros((), jnp.int32)}
    with process.watched(ADAPTER):

        @jax.jit
        def update(x: Any) -> Any:
            return state["w"] - 0.1 * jax.grad(loss)(state["w"], x) + state["count"]

        for _ in range(20):
            state = {"w": update(X), "count": state["count"] + 1}
    assert told(process) == [("state", "array")]
    assert process.recorder.containment.failed == {}
