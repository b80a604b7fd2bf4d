"""Loops of a script's own: evaluations, which no tape records, and players of a game."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters import keras as adapter  # noqa: E402
from mothtrap.adapters import tensorflow as base  # noqa: E402
from mothtrap.core.facts.evaluations import Evaluation, TrainingMode  # noqa: E402
from mothtrap.core.facts.losses import LossSeries  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
EPOCHS = 4


def train(*, compiled: bool, reduction: str) -> tuple[list[float], list[Evaluation]]:
    """Train and evaluate by hand; return the losses, as the loop has them, and what was seen."""
    keras.utils.set_random_seed(0)
    process, losses = Process("numpy"), []
    with process.watched(base), process.watched(adapter):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        evaluated = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction=reduction
        )

        def step(x: object, y: object) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        def evaluate(x: object, y: object) -> object:
            return tf.reduce_sum(evaluated(y, model(x, training=False)))

        if compiled:
            step, evaluate = tf.function(step), tf.function(evaluate)
        for _ in range(EPOCHS):
            for _ in range(3):
                step(X, Y)
            sums = [float(evaluate(X[rows], Y[rows])) for rows in (slice(0, 30), slice(30, 40))]
            means = np.dot(sums, (30, 10)) if reduction == "sum_over_batch_size" else sum(sums)
            losses.append(float(means) / 40)
        step(X, Y)
    return losses, [one for one in process.facts() if isinstance(one, Evaluation)]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "none"])
def test_each_evaluation_is_one_value_over_its_rows(compiled: bool, reduction: str) -> None:
    losses, seen = train(compiled=compiled, reduction=reduction)
    assert [one.value for one in seen] == pytest.approx(losses, rel=1e-6)
    assert [(one.rows, one.number) for one in seen] == [(40, n) for n in range(EPOCHS)]
    assert [one.step for one in seen] == [3, 6, 9, 12]
    zeros, ones = np.bincount(Y).tolist()
    assert seen[0].label_counts == (zeros, ones)
    shares = np.array([zeros, ones]) / 40
    entropy = pytest.approx(-(shares * np.log(shares)).sum())
    assert [one.guess for one in seen] == [entropy] * EPOCHS
    assert all((one.location or "").rpartition(":")[0].endswith("test_loops.py") for one in seen)


def test_evaluations_of_fit_are_those_of_keras_alone() -> None:
    process = Process("numpy")
    with process.watched(base), process.watched(adapter):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, epochs=2, validation_data=(X, Y), verbose=0)
        model.evaluate(X, Y, verbose=0)
    sites = [one.site.split()[0] for one in process.facts() if isinstance(one, Evaluation)]
    assert sites == ["validation", "validation", "evaluate"]


@pytest.mark.parametrize("compiled", [True, False])
def test_each_loss_of_a_game_has_its_own_optimizer(compiled: bool) -> None:
    process = Process("numpy")
    with process.watched(base), process.watched(adapter):
        players = [keras.Sequential([keras.Input((6,)), keras.layers.Dense(6)]) for _ in range(2)]
        rates = [keras.optimizers.SGD(0.1, name=name) for name in ("first", "second")]
        loss_of = keras.losses.MeanSquaredError()

        def step(x: object) -> None:
            with tf.GradientTape() as mine, tf.GradientTape() as yours:
                own = loss_of(x, players[0](x, training=True))
                other = loss_of(players[0](x, training=True), players[1](x, training=True))
            for tape, loss, player, rate in zip(
                (mine, yours), (own, other), players, rates, strict=True
            ):
                weights = player.trainable_variables
                rate.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        step = tf.function(step) if compiled else step
        for _ in range(3):
            step(X)
    series = [one for one in process.facts() if isinstance(one, LossSeries)]
    assert {one.optimizers for one in series} == {("first",), ("second",)}


def test_a_missing_flag_is_told_at_the_line_that_calls_the_model() -> None:
    process = Process("numpy")
    with process.watched(base), process.watched(adapter):
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
        )
        optimizer = keras.optimizers.SGD(0.1)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = loss_of(Y, model(X))  # the line
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    [mode] = [one for one in process.facts() if isinstance(one, TrainingMode)]
    line = int((mode.location or "").rpartition(":")[2])
    assert linecache.getline(__file__, line).rstrip().endswith("# the line")
