"""New weights and states that a step passes on, and updates that are lost within it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.adapters.jax.carries import returned_states  # noqa: E402
from mothtrap.core.facts.captures import ToolError  # noqa: E402
from mothtrap.core.facts.compiling import UpdateDropped  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.smoke
X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
CALLS = 10


def loss_fn(params: Any, x: Any, y: Any) -> Any:
    logits = jnp.tanh(x @ params["a"]) @ params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def weights() -> dict[str, Any]:
    one, two = jax.random.split(jax.random.key(0))
    return {"a": jax.random.normal(one, (4, 8)), "b": jax.random.normal(two, (8, 2))}


def train(step: Callable[..., Any], assign: Callable[..., Any]) -> Process:
    """Call a step ten times; `assign` decides which weights and state the next call gets."""
    process = Process("jax")
    with process.watched(ADAPTER):
        compiled = jax.jit(step)
        params = weights()
        given = params, optimizer.init(params)
        for _ in range(CALLS):
            given = assign(given, compiled(*given, X, Y))
    return process


optimizer = optax.adam(0.01)


def sound(params: Any, state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


def forgetful(params: Any, state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state)
    optax.apply_updates(params, updates)
    return params, state, loss


def in_16_bits(params: Any, state: Any, x: Any, y: Any) -> Any:
    half = jax.tree.map(lambda one: one.astype(jnp.bfloat16), params)
    loss, grads = jax.value_and_grad(loss_fn)(half, x.astype(jnp.bfloat16), y)
    updates, state = optimizer.update(jax.tree.map(jnp.float32, grads), state)
    return optax.apply_updates(params, updates), state, loss


def facts(process: Process, kind: type[Any]) -> list[Any]:
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def told(process: Process) -> list[tuple[str, str, int]]:
    return [(one.why, one.state, one.calls) for one in facts(process, UpdateDropped)]


def test_what_is_handed_on_is_no_fault() -> None:
    assert told(train(sound, lambda _, out: out[:2])) == []


def test_a_state_that_stays_the_old_one_is_told_by_its_name() -> None:
    assert told(train(sound, lambda given, out: (out[0], given[1]))) == [("", "state", 8)]


def test_old_weights_are_told_and_not_the_state_that_goes_with_them() -> None:
    assert told(train(sound, lambda given, _: given)) == [("", "", 8)]


def test_a_step_that_returns_its_old_weights_is_told_with_the_line_of_the_update() -> None:
    process = train(forgetful, lambda _, out: out[:2])
    assert told(process) == [("unchanged", "", 8)]
    [fact] = facts(process, UpdateDropped)
    assert "test_carries.py" in (fact.location or "")


def test_weights_cast_to_16_bits_are_those_of_the_step() -> None:
    process = train(in_16_bits, lambda _, out: out[:2])
    assert len(process.steps()) == CALLS
    assert {call.operation for call in facts(process, LossCall)} == {"cross_entropy"}


@pytest.mark.parametrize(("compiled", "lost"), [("jax", True), ("nnx", False)])
def test_a_model_changed_in_place_keeps_nothing_of_it_inside_jit(compiled: str, lost: bool) -> None:
    process = Process("jax")
    with process.watched(ADAPTER):
        model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
        opt = nnx.Optimizer(model, optimizer, wrt=nnx.Param)

        def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
            def loss_of(model: Any) -> Any:
                return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

            loss, grads = nnx.value_and_grad(loss_of)(model)
            opt.update(model, grads)
            return loss

        step = jax.jit(step) if compiled == "jax" else nnx.jit(step)
        for _ in range(CALLS):
            step(model, opt, X, Y)
    assert told(process) == ([("in place", "", 8)] if lost else [])
    assert len(process.steps()) == CALLS


AVERAGES = {"batch_stats": {"norm": {"mean": jnp.zeros(2)}}}


@pytest.mark.parametrize("returned", ["old", "new", "mean of the devices"])
def test_batch_statistics_that_a_step_computes_must_be_returned(returned: str) -> None:
    """As `mutable=["batch_stats"]` of flax: the loss function returns them beside the loss."""

    def loss_of(params: Any, averages: Any, x: Any, y: Any) -> Any:
        means = (x @ params["a"]).mean(axis=0)[:2]
        old = averages["batch_stats"]["norm"]["mean"]
        new = {"batch_stats": {"norm": {"mean": 0.9 * old + 0.1 * means}}}
        return loss_fn(params, x, y), new

    def step(params: Any, averages: Any, state: Any, x: Any, y: Any) -> Any:
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        (loss, new), grads = gradient(params, averages, x, y)
        updates, state = optimizer.update(grads, state)
        if returned == "mean of the devices":
            new = jax.tree.map(lambda one: one * 1.0, new)
        averages = averages if returned == "old" else new
        return optax.apply_updates(params, updates), averages, state, loss

    process = Process("jax")
    with process.watched(ADAPTER):
        compiled, params = jax.jit(step), weights()
        averages, state = AVERAGES, optimizer.init(params)
        for _ in range(CALLS):
            params, averages, state, _ = compiled(params, averages, state, X, Y)
    lost = [("not returned", "batch_stats", 8)]
    assert told(process) == (lost if returned == "old" else [])


@pytest.mark.parametrize("on_mesh", [False, True])
def test_a_running_metric_is_not_the_loss(*, on_mesh: bool) -> None:
    """`nnx.jit` returns the sum of a metric, which grows while the loss falls."""
    process = Process("jax")
    with process.watched(ADAPTER):
        model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
        opt = nnx.Optimizer(model, optimizer, wrt=nnx.Param)
        metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))

        def loss_of(model: Any, x: Any, y: Any) -> Any:
            losses = optax.softmax_cross_entropy_with_integer_labels(model(x), y)
            return losses.mean()

        @nnx.jit
        def step(model: Any, opt: Any, metrics: Any, x: Any, y: Any) -> None:
            loss, grads = nnx.value_and_grad(loss_of)(model, x, y)
            metrics.update(loss=loss)
            opt.update(model, grads)

        mesh = jax.make_mesh((1, 1), ("rows", "model"))
        with jax.set_mesh(mesh) if on_mesh else nullcontext():
            for _ in range(CALLS):
                step(model, opt, metrics, X, Y)
    scalars = [scalar for record in process.records for scalar in record.scalars]
    losses = [scalar.value for scalar in scalars if scalar.name == "loss"]
    assert losses
    assert max(losses) <= 1.1 * losses[0]
    assert not any(isinstance(fact, ToolError) for fact in process.facts())


def test_a_loss_beside_a_state_of_another_structure_is_found() -> None:
    """Only what has the paths of an argument is its new state."""
    x = np.zeros(3)
    given = [((0, 0, "a"), x), ((0, 0, "b"), x), ((0, 1, "a"), x), ((0, 1, "b"), x)]
    returned = [((0, 0, "a"), x), ((0, 0, "b"), x), ((0, 1, "a"), x), ((2,), x)]
    assert returned_states(given, returned) == {0, 1}
