"""Losses of `tf.nn` that a script calls itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.losses import LossCall  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(96, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64") + (X[:, 1] > 0)


def raw(activation: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
    """Return a loss of integer labels, after an activation."""

    def loss(logits: Any, y: Any) -> Any:
        scores = activation(logits)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores)
        )

    return loss


def train(loss: Callable[..., Any], *, traced: bool, by_hand: bool) -> Process:
    """Train a layer for a few steps; `by_hand`: raw variables instead of Keras."""
    keras.utils.set_random_seed(0)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        kernel = tf.Variable(np.zeros((6, 3), "float32"))
        model, optimizer = keras.layers.Dense(3), keras.optimizers.SGD(0.1)
        model.build((None, 6))

        def step(x: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                value = loss(x @ kernel if by_hand else model(x), y)
            variables = [kernel] if by_hand else model.trainable_variables
            gradients = tape.gradient(value, variables)
            if by_hand:
                kernel.assign_sub(0.1 * gradients[0])
            else:
                optimizer.apply_gradients(zip(gradients, variables, strict=True))

        act = tf.function(step) if traced else step
        for begin in range(0, 96, 24):
            act(tf.constant(X[begin : begin + 24]), tf.constant(Y[begin : begin + 24]))
    return process


def calls(process: Process) -> list[LossCall]:
    return [one for one in process.facts() if isinstance(one, LossCall)]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("by_hand", [True, False])
def test_a_softmax_before_a_raw_loss_is_named(traced: bool, by_hand: bool) -> None:
    process = train(raw(lambda x: tf.nn.softmax(x)), traced=traced, by_hand=by_hand)
    found = calls(process)
    assert {(one.operation, one.chain[0], one.classes) for one in found} == {
        ("cross_entropy", "softmax", 3)
    }
    [named] = [finding for finding in process.findings() if finding.code == "STR701"]
    assert named.fixes[0].startswith("Pass the logits to `tf.nn.sparse_softmax_cross_entropy_with")
    healthy = train(raw(), traced=traced, by_hand=by_hand)
    assert {one.chain[:1] for one in calls(healthy)} <= {(), ("linear",)}
    assert "STR701" not in {finding.code for finding in healthy.findings()}


def test_a_loss_of_keras_is_no_raw_loss() -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = calls(train(lambda scores, y: loss(y, scores), traced=True, by_hand=False))
    assert {one.function for one in found} == {"sparse_categorical_crossentropy"}


def test_the_labels_of_a_raw_loss_are_counted() -> None:
    def loss(logits: Any, y: Any) -> Any:
        hot = tf.one_hot(y, 3)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(hot, logits))

    found = calls(train(loss, traced=False, by_hand=True))
    assert found[0].label_counts == tuple(np.bincount(Y[:24], minlength=3).tolist())
    assert found[0].alone


@pytest.mark.parametrize("swapped", [True, False])
def test_one_hot_labels_that_are_given_as_logits_are_named(swapped: bool) -> None:
    def loss(logits: Any, y: Any) -> Any:
        hot = tf.one_hot(y, 3)
        labels, given = (logits, hot) if swapped else (hot, logits)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=given))

    found = calls(train(loss, traced=True, by_hand=True))
    assert {call.swapped for call in found} == {swapped}
    if swapped:
        assert {call.rows_are_probabilities for call in found} == {None}


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("by_hand", [True, False])
def test_a_loss_that_broadcasts_is_named(traced: bool, by_hand: bool) -> None:
    def error(outer: bool) -> Callable[..., Any]:
        def loss(logits: Any, y: Any) -> Any:
            prediction = tf.reduce_sum(logits, axis=1, keepdims=outer)
            return tf.reduce_mean(tf.square(prediction - tf.cast(y, tf.float32)))

        return loss

    named = train(error(outer=True), traced=traced, by_hand=by_hand).findings()
    assert named[0].code == "STR706"
    assert "(24, 24)" in named[0].message
    healthy = train(error(outer=False), traced=traced, by_hand=by_hand).findings()
    assert "STR706" not in {finding.code for finding in healthy}
