"""Some steps of a custom loop are not watched where watching each would take too long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.core.facts.captures import Unwatched  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS, RESTS_FROM, BAD, EACH = 200, 80, 150, 30
X = np.random.default_rng(0).normal(size=(STEPS, 8, 4)).astype("float32")
BROKEN = np.where(np.arange(STEPS)[:, None, None] == BAD, np.nan, X).astype("float32")


def trained(batches: np.ndarray, *, returns: bool) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(6, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    optimizer, loss_of = keras.optimizers.Adam(0.001), keras.losses.MeanSquaredError()

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(tf.reduce_sum(x, axis=1, keepdims=True), model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss if returns else None

    @tf.function
    def evaluate(x: Any) -> Any:
        return loss_of(tf.reduce_sum(x, axis=1, keepdims=True), model(x, training=False))

    for number, x in enumerate(batches):
        step(tf.constant(x))
        if number % EACH == EACH - 1:
            evaluate(tf.constant(X[0]))
    return model


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    """A process that pauses from a given step on, and ends a pause only when it must."""
    process = Process(ADAPTER.arrays, overhead=0.02)
    monkeypatch.setattr(
        process.recorder, "next_watched", lambda step: step + (1 if step < RESTS_FROM else 1000)
    )
    monkeypatch.setattr(process.recorder.sampler, "long_s", lambda: float("inf"))
    return process


def unwatched(process: Process) -> list[tuple[int, int | None]]:
    facts = process.facts()
    return [(fact.step, fact.last_step) for fact in facts if isinstance(fact, Unwatched)]


@pytest.mark.parametrize("returns", [True, False])
def test_weights_are_the_same_and_evaluations_are_seen(process: Process, returns: bool) -> None:
    with process.watched(ADAPTER):
        model = trained(X, returns=returns)
    plain = trained(X, returns=returns)
    assert all(map(np.array_equal, model.get_weights(), plain.get_weights()))
    assert unwatched(process) == [(RESTS_FROM + 1, STEPS - 1)]
    assert process.recorder.steps == STEPS
    evaluations = [fact.step for fact in process.facts() if isinstance(fact, Evaluation)]
    assert evaluations == list(range(EACH, STEPS, EACH))


@pytest.mark.parametrize("returns", [True, False])
def test_a_rest_ends_at_a_loss_that_is_not_finite(process: Process, returns: bool) -> None:
    with process.watched(ADAPTER):
        trained(BROKEN, returns=returns)
    assert unwatched(process)[0] == (RESTS_FROM + 1, BAD - 1)
    losses = {
        record.key.step: scalar.value
        for record in process.records
        for scalar in record.scalars
        if scalar.name == "loss"
    }
    assert np.isnan(losses[BAD])
    assert np.isfinite(losses[RESTS_FROM])


def test_a_step_that_another_function_makes_ends_a_rest(process: Process) -> None:
    with process.watched(ADAPTER):
        trained(X, returns=True)
        trained(X[:3], returns=True)
    assert unwatched(process)[0] == (RESTS_FROM + 1, STEPS - 1)
    assert process.recorder.steps == STEPS + 3
    [first] = [record for record in process.records if record.key.step == STEPS]
    assert len([one for one in first.scalars if one.name == "loss"]) == 1, "of its own program"
