"""`mothtrap.log` and `log_tensor` inside compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.capture.logged import Logged  # noqa: E402
from mothtrap.core.facts.captures import Blind, ToolError  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

STEPS = 6


def train(loss: Callable[..., Any], **options: Any) -> tuple[Process, np.ndarray]:
    """Train on batches filled with the step number + 1, with weights that stay 1."""
    process = Process("jax")
    logged = Logged(process.recorder, process.said.append)
    with process.watched(ADAPTER):

        @jax.jit
        def update(w: Any, x: Any) -> Any:
            value, grad = jax.value_and_grad(lambda w: loss(w, x, logged))(w)
            logged.number("of_gradient", grad.sum())
            return w - options.get("rate", 0.0) * grad, value

        w = jnp.ones(3)
        for step in range(STEPS):
            w, _ = update(w, np.full((4, 3), step + 1, np.float32))
    assert not [fact for fact in process.facts() if isinstance(fact, ToolError)], process.said
    return process, np.asarray(w)


def values(process: Process, name: str) -> list[float]:
    every = [scalar for record in process.records for scalar in record.scalars]
    return [scalar.value for scalar in every if scalar.name == name]


def in_a_loop(w: Any, x: Any, logged: Any) -> Any:
    def body(total: Any, row: Any) -> Any:
        logged.number("total", total)
        return total + (row * w).sum(), None

    return jax.lax.scan(body, jnp.zeros(()), x)[0]


def by_row(w: Any, x: Any, logged: Any) -> Any:
    def of_row(row: Any) -> Any:
        logged.number("row", (row * w).sum())
        logged.tensor("rows", row)
        return (row * w).sum()

    return jax.vmap(of_row)(x).mean()


def computed_again(w: Any, x: Any, logged: Any) -> Any:
    def hidden(x: Any) -> Any:
        total = jnp.tanh(x @ w)
        logged.number("hidden", x[0, 0])
        return total

    return jax.checkpoint(hidden)(x).mean()


def inside_compiled(w: Any, x: Any, logged: Any) -> Any:
    @jax.jit
    def inner(w: Any) -> Any:
        logged.number("inner", w.sum())
        return (x @ w).mean()

    return inner(w)


STEPS_FROM_1 = np.arange(1, STEPS + 1)


@pytest.mark.parametrize(
    ("loss", "name", "expected"),
    [
        (in_a_loop, "total", 4.5 * STEPS_FROM_1),  # the mean of 0, 3, 6 and 9 times the batch
        (by_row, "row", 3.0 * STEPS_FROM_1),
        (computed_again, "hidden", STEPS_FROM_1),
        (inside_compiled, "inner", np.full(STEPS, 3.0)),
        (inside_compiled, "of_gradient", 3.0 * STEPS_FROM_1),
    ],
)
def test_values_of_compiled_functions(loss: Any, name: str, expected: Any) -> None:
    process, _ = train(loss)
    assert values(process, name) == pytest.approx(expected.tolist())


def test_a_tensor_of_each_row_is_kept_whole() -> None:
    process, _ = train(by_row)
    [info] = [i for r in process.records for _, i in r.defined if i.kind == "metric"]
    assert (info.name, info.shape) == ("rows", (4, 3))


class Silence:
    """Replaces the logging functions of mothtrap outside a run."""

    def number(self, *_: object) -> None:
        """Log nothing."""

    def tensor(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize("loss", [in_a_loop, by_row, inside_compiled])
def test_logs_change_no_bit(loss: Any) -> None:
    @jax.jit
    def update(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(lambda w: loss(w, x, Silence()))(w)
        return w - 0.1 * grad, value

    w = jnp.ones(3)
    for step in range(STEPS):
        w, _ = update(w, np.full((4, 3), step + 1, np.float32))
    assert train(loss, rate=0.1)[1].tobytes() == np.asarray(w).tobytes()


def test_logs_of_functions_without_a_shadow_are_told() -> None:
    def printing(w: Any, x: Any, logged: Any) -> Any:
        jax.debug.callback(lambda _: None, w)
        logged.number("total", w.sum())
        return (x @ w).mean()

    process, _ = train(printing)
    assert not values(process, "total")
    said = [fact.what for fact in process.facts() if isinstance(fact, Blind)]
    assert any("what it logs" in what for what in said)
