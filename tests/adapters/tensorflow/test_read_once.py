"""Values that programs read while they are traced."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER as KERAS  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER  # noqa: E402
from mothtrap.core.facts.compiling import ValueReadOnce  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def told(process: Process) -> list[tuple[str, str, str]]:
    return [
        (one.function, one.name, one.kind)
        for one in process.facts()
        if isinstance(one, ValueReadOnce)
    ]


@pytest.mark.parametrize("by", ["number", "variable"])
def test_a_learning_rate_outside_of_a_function(by: str) -> None:
    process = Process("numpy")
    with process.watched(ADAPTER):
        w = tf.Variable(tf.ones((3, 1)))
        rate = 0.1 if by == "number" else tf.Variable(0.1)

        @tf.function
        def step(x: object) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
            w.assign_sub(rate * tape.gradient(loss, w))

        for number in range(20):
            if by == "number":
                rate = 0.1 * 0.9**number
            else:
                rate.assign(0.1 * 0.9**number)
            step(tf.constant(X))
    assert told(process) == ([("step", "rate", "number")] if by == "number" else [])


def test_a_batch_outside_of_a_function() -> None:
    process = Process("numpy")
    with process.watched(ADAPTER):
        w, x = tf.Variable(tf.ones((3, 1))), tf.constant(X)

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
            w.assign_sub(0.1 * tape.gradient(loss, w))

        for number in range(20):
            x = tf.constant(X * number)
            step()
    assert told(process) == [("step", "x", "array")]


class Annealed(keras.Model):
    """A model whose loss has a weight, and noise."""

    def __init__(self, *, inside: bool) -> None:
        super().__init__()
        self.dense, self.inside = keras.layers.Dense(1), inside
        self.beta = 0.0 if inside else keras.Variable(0.0, trainable=False)

    def call(self, x: object) -> object:
        return self.dense(x)

    def train_step(self, x: object) -> dict[str, object]:
        noise = np.random.normal(size=(8, 3)) if self.inside else tf.random.normal((8, 3))
        with tf.GradientTape() as tape:
            output = self(x + tf.cast(noise, tf.float32), training=True)
            loss = tf.reduce_mean(tf.square(output - 1.0)) * (1.0 + self.beta)
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


class Anneals(keras.callbacks.Callback):
    """Raises the weight in each epoch."""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        if self.model.inside:
            self.model.beta = epoch / 10
        else:
            self.model.beta.assign(epoch / 10)


@pytest.mark.parametrize("inside", [False, True])
def test_a_number_of_a_model_that_a_callback_sets(inside: bool) -> None:
    process = Process("numpy")
    with process.watched(ADAPTER), process.watched(KERAS):
        model = Annealed(inside=inside)
        model.compile("sgd")
        data = tf.data.Dataset.from_tensor_slices(X).repeat(5).batch(8)
        model.fit(data, epochs=5, callbacks=[Anneals()], verbose=0)
    expected = [
        ("train_step", "np.random.normal", "random"),
        ("train_step", "self.beta", "number"),
    ]
    assert sorted(told(process)) == (expected if inside else [])
