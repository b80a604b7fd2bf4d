"""Batch norms that train in evaluation mode, or are evaluated in training mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from flax import linen, nnx  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.core.facts.evaluations import EvaluationPhase, TrainingMode  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
STEPS = 14


class Named(linen.Module):
    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        hidden = linen.BatchNorm(use_running_average=not train, name="norm")(linen.Dense(8)(x))
        return linen.Dense(2)(linen.relu(hidden))


def with_linen(*, train: bool, returns: bool = True) -> list[Any]:
    model, optimizer = Named(), optax.sgd(0.1)
    state: Any = model.init(jax.random.PRNGKey(0), X, train=True)
    moments = optimizer.init(state["params"])

    def loss_of(params: Any, stats: Any, x: Any, y: Any) -> Any:
        given = {"params": params, "batch_stats": stats}
        logits, new = model.apply(given, x, train=train, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new

    def step(params: Any, stats: Any, moments: Any, x: Any, y: Any) -> Any:
        found = jax.value_and_grad(loss_of, has_aux=True)(params, stats, x, y)
        (loss, new), grads = found
        updates, moments = optimizer.update(grads, moments)
        stats = new["batch_stats"] if returns else stats
        return optax.apply_updates(params, updates), stats, moments, loss

    process, params, stats = Process("jax"), state["params"], state["batch_stats"]
    with process.watched(ADAPTER):
        compiled = jax.jit(step)
        for _ in range(STEPS):
            params, stats, moments, _ = compiled(params, stats, moments, X, Y)
    return [one for one in process.facts() if isinstance(one, TrainingMode)]


def test_a_step_that_keeps_its_initial_statistics_trains_in_evaluation_mode() -> None:
    [mode] = with_linen(train=False)
    assert (mode.trains, mode.norms, mode.sleeping) == (False, ("norm",), ("norm",))
    [mode] = with_linen(train=True)
    assert (mode.trains, mode.sleeping) == (True, ())


def test_statistics_that_are_lost_are_not_read() -> None:
    [mode] = with_linen(train=True, returns=False)
    assert mode.trains


class Unnamed(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.norm = nnx.Linear(4, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(nnx.relu(self.norm(self.first(x))))


def with_nnx(*, train: bool, evaluate: bool) -> tuple[list[Any], list[Any]]:
    model = Unnamed(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    trained = nnx.view(model, use_running_average=not train)
    evaluated = nnx.view(model, use_running_average=not evaluate)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    process = Process("jax")
    with process.watched(ADAPTER):

        @nnx.jit
        def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
            loss, grads = nnx.value_and_grad(loss_of)(model, x, y)
            optimizer.update(model, grads)
            return loss

        @nnx.jit
        def validate(model: Any, x: Any, y: Any) -> Any:
            return loss_of(model, x, y)

        for number in range(STEPS):
            step(trained, optimizer, jnp.asarray(X), jnp.asarray(Y))
            if number % 4 == 3:
                validate(evaluated, X[:16], Y[:16])
        step(trained, optimizer, jnp.asarray(X), jnp.asarray(Y))
    facts = list(process.facts())
    modes = [one for one in facts if isinstance(one, TrainingMode)]
    return modes, [one for one in facts if isinstance(one, EvaluationPhase)]


def test_the_modes_of_an_nnx_model() -> None:
    [mode], phases = with_nnx(train=True, evaluate=False)
    assert (mode.trains, mode.norms, mode.sleeping) == (True, ("norm",), ())
    assert phases
    assert not any(phase.trains for phase in phases)


def test_an_evaluation_that_changes_statistics_is_in_training_mode() -> None:
    _, phases = with_nnx(train=True, evaluate=True)
    assert {phase.norms for phase in phases} == {("norm",)}
    assert all(phase.trains for phase in phases)


def test_an_nnx_model_that_trains_in_evaluation_mode() -> None:
    [mode], _ = with_nnx(train=False, evaluate=False)
    assert (mode.trains, mode.sleeping) == (False, ("norm",))
