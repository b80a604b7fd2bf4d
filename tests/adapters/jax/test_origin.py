"""The operation, line and rows at which a step became non-finite."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

optax = pytest.importorskip("optax")

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.captures import Blind  # noqa: E402
from mothtrap.core.facts.data import NonfiniteInput  # noqa: E402
from mothtrap.core.facts.nonfinite import FirstBadOperation  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.smoke
ROWS = 8


def batch(step: int, bad: int, value: float) -> np.ndarray:
    """Return a batch of values >= 1; in step `bad`, one in row 5 breaks the loss."""
    x = 1 + np.random.default_rng(step).random((ROWS, 4)).astype(np.float32)
    x[5, 0] = value if step == bad else x[5, 0]
    return x


def train(loss: Callable[..., Any], value: float, *, bad: int = 6, keys: bool = False) -> Process:
    process = Process("jax")
    with process.watched(ADAPTER):

        @jax.jit
        def update(w: Any, x: Any, key: Any) -> Any:
            extra = (key,) if keys else ()
            found, grad = jax.value_and_grad(loss)(w, x, *extra)
            return w - 0.01 * grad, found

        w = jnp.full(4, 0.5)
        for step in range(bad + 2):
            w, _ = update(w, batch(step, bad, value), jax.random.PRNGKey(step))
    return process


def first_bad(process: Process) -> FirstBadOperation:
    every = [fact for fact in process.facts() if isinstance(fact, FirstBadOperation)]
    [found] = [fact for fact in every if not fact.backward]
    return found


def of_gradient(process: Process) -> FirstBadOperation:
    every = [fact for fact in process.facts() if isinstance(fact, FirstBadOperation)]
    [found] = [fact for fact in every if fact.backward]
    return found


def source(found: FirstBadOperation) -> str:
    path, _, line = str(found.location).rpartition(":")
    return linecache.getline(path, int(line)).strip()


def test_a_logarithm_late_in_training() -> None:
    def loss(w: Any, x: Any) -> Any:
        size = jnp.log(x[:, 0] - 1)  # the culprit
        return ((x @ w - size) ** 2).mean()

    found = first_bad(train(loss, 0.5))
    assert (found.operation, found.step, found.rows) == ("log", 6, (5,))
    assert source(found).endswith("# the culprit")


def test_inside_a_scan() -> None:
    def loss(w: Any, x: Any) -> Any:
        def body(total: Any, row: Any) -> Any:
            return total + jnp.sqrt(row[0] - 1) * row.sum(), None  # the culprit

        total, _ = jax.lax.scan(body, w.sum(), x)
        return total

    found = first_bad(train(loss, 0.5))
    assert (found.operation, found.rows) == ("sqrt", (5,))
    assert source(found).endswith("# the culprit")


def test_under_dropout() -> None:
    def loss(w: Any, x: Any, key: Any) -> Any:
        kept = jax.random.bernoulli(key, 0.9, x.shape)
        hidden = jnp.where(kept, x / 0.9, 0.0)
        return (jnp.exp(hidden[:, 0]) @ jnp.ones(ROWS) * w.sum()) / ROWS  # the culprit

    found = first_bad(train(loss, 500.0, keys=True))
    assert found.operation in ("exp", "exp2")
    assert source(found).endswith("# the culprit")
    assert found.rows == (5,)


def test_the_gradient_of_a_root() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sqrt((x[:, 0] * w[0]) ** 2).mean()  # the culprit

    process = train(loss, 0.0)
    assert not np.isfinite([r for record in process.records for r in _losses(record)]).all()
    found = first_bad(process)
    assert source(found).endswith("# the culprit")
    assert found.rows == (5,)
    slope = of_gradient(process)
    assert (slope.operation, slope.step, found.step) == ("sqrt", 6, 7)
    assert (slope.inputs, slope.rows) == (found.inputs[-1:], (5,))
    assert slope.location == found.location


def test_the_gradient_of_a_norm() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.linalg.norm(x[:, :1] * w[:1], axis=1).mean()  # the culprit

    slope = of_gradient(train(loss, 0.0))
    assert (slope.operation, slope.rows) == ("norm", (5,))
    assert source(slope).endswith("# the culprit")


def test_nothing_behind_a_where_is_blamed() -> None:
    def loss(w: Any, x: Any) -> Any:
        safe = jnp.where(x[:, 1] > 0, 0.0, jnp.log(-x[:, 1]))  # harmless
        return ((x @ w + safe - jnp.log(x[:, 0])) ** 2).mean()  # the culprit

    found = first_bad(train(loss, 0.0))
    assert source(found).endswith("# the culprit")


def test_a_mask_of_minus_infinity_is_not_blamed() -> None:
    def loss(w: Any, x: Any) -> Any:
        scores = jnp.where(jnp.arange(4) < 2, x * w, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        return (weights.sum(axis=-1) / (x[:, 0] - 2)).mean()  # the culprit

    found = first_bad(train(loss, 2.0))
    assert found.operation == "div"
    assert found.rows == (5,)


def test_a_bad_row_of_the_data_is_told_as_such() -> None:
    def loss(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).mean()

    [seen] = [f for f in train(loss, np.nan).facts() if isinstance(f, NonfiniteInput)]
    assert (seen.step, seen.nan, seen.rows) == (6, 1, (5,))


def _losses(record: Any) -> list[float]:
    return [scalar.value for scalar in record.scalars if scalar.name == "loss"]


def donating(loss: Callable[..., Any], *, bad: int, prints: bool = False) -> Process:
    """Train with Adam and donated arguments; step `bad` gets a value that breaks it."""
    process = Process("jax")
    optimizer = optax.adam(1e-2)
    with process.watched(ADAPTER):

        @functools.partial(jax.jit, donate_argnums=(0, 1), static_argnames="power")
        def update(w: Any, state: Any, x: Any, *, power: int) -> Any:
            found, grad = jax.value_and_grad(lambda w: loss(w, x) ** power)(w)
            if prints:
                jax.debug.callback(lambda _: None, found)
            change, state = optimizer.update(grad, state)
            return optax.apply_updates(w, change), state, found

        w = jnp.full(4, 0.5)
        state = optimizer.init(w)
        for step in range(bad + 2):
            w, state, _ = update(w, state, batch(step, bad, 0.5), power=1)
    return process


def of_donated(w: Any, x: Any) -> Any:
    size = jnp.log(x[:, 0] - 1)  # the culprit
    return ((x @ w - size) ** 2).mean()


@pytest.mark.parametrize("bad", [0, 6, 150], ids=str)
def test_inputs_that_were_given_away_are_made_again(bad: int) -> None:
    found = first_bad(donating(of_donated, bad=bad))
    assert (found.operation, found.step, found.rows) == ("log", bad, (5,))
    assert source(found).endswith("# the culprit")


def test_the_weights_at_the_bad_step_are_those_of_then() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sqrt(0.56 - w[0] + 0 * x[:, 0]).mean()  # breaks when w has risen above

    process = donating(loss, bad=40)
    losses = [value for record in process.records for value in _losses(record)]
    found = first_bad(process)
    assert found.step == int(np.flatnonzero(~np.isfinite(losses))[0]) > 2
    assert found.operation == "sqrt"


def test_steps_that_call_back_are_not_made_again() -> None:
    process = donating(of_donated, bad=6, prints=True)
    assert not [fact for fact in process.facts() if isinstance(fact, FirstBadOperation)]
    said = [fact.reason for fact in process.facts() if isinstance(fact, Blind)]
    assert any("call back into Python" in reason for reason in said)


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}], ids=["held", "given away"])
def test_a_gradient_that_breaks_the_next_loss_is_the_origin(options: dict[str, Any]) -> None:
    def loss(w: Any, x: Any) -> Any:
        square = (x[:, 0] * w[0]) ** 2
        length = jnp.where(square == 0, 0.0, jnp.sqrt(square))  # the culprit
        return ((length - x @ w) ** 2).mean()

    process = Process("jax")
    with process.watched(ADAPTER):

        @functools.partial(jax.jit, **options)
        def update(w: Any, x: Any) -> Any:
            found, grad = jax.value_and_grad(loss)(w, x)
            return w - 0.01 * grad, found

        w = jnp.full(4, 0.5)
        for step in range(10):
            w, _ = update(w, batch(step, 6, 0.0))
    found = first_bad(process)
    losses = [value for record in process.records for value in _losses(record)]
    assert int(np.flatnonzero(~np.isfinite(losses))[0]) == 7
    assert source(found).endswith("# the culprit")
    assert found.rows == (5,)


def test_no_operation_is_blamed_for_a_nan_that_the_step_was_given() -> None:
    process = train(lambda w, x: (jnp.tanh(x @ w) ** 2).mean(), float("nan"))
    assert [fact.rows for fact in process.facts() if isinstance(fact, NonfiniteInput)] == [(5,)]
    assert not [fact for fact in process.facts() if isinstance(fact, FirstBadOperation)]
