"""The adapter of custom TensorFlow loops passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)

from mothtrap.adapters.tensorflow import ADAPTER  # noqa: E402
from mothtrap.core.facts.optimizers import UpdateDirection  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(96, 6)).astype("float32")
Y = X[:, :1] - 2 * X[:, 1:2]


class TestTensorFlow(AdapterTests):
    adapter = ADAPTER
    steps = 8
    replaced = (tf.GradientTape, tf.Tensor, type(tf.function(lambda: None)), tf.nn, tf.math)
    elsewhere: ClassVar = {"ValueReadOnce": "tests/adapters/tensorflow/test_read_once.py"}

    def train(self) -> bytes:
        """Make four eager steps, then four of a `tf.function`."""
        kernel = tf.Variable(np.full((6, 1), 0.1, "float32"), name="kernel")
        bias = tf.Variable([0.0], name="bias")

        def step(x: tf.Tensor, y: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ kernel + bias - y))
            for variable, gradient in zip(
                (kernel, bias), tape.gradient(loss, [kernel, bias]), strict=True
            ):
                variable.assign_sub(0.1 * gradient)

        for act in (step, tf.function(step)):
            for begin in range(0, 96, 24):
                act(tf.constant(X[begin : begin + 24]), tf.constant(Y[begin : begin + 24]))
        return kernel.numpy().tobytes() + bias.numpy().tobytes()

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train, self.trace_often, self.classify]

    def classify(self) -> None:
        """Train with a loss of `tf.nn`."""
        kernel, labels = tf.Variable(np.zeros((6, 2), "float32")), tf.constant(Y[:, 0] > 0)
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.cast(labels, tf.int32), logits=tf.constant(X) @ kernel
                )
                mean = tf.reduce_mean(loss)
            kernel.assign_sub(0.1 * tape.gradient(mean, kernel))

    def trace_often(self) -> None:
        kernel = tf.Variable([1.0])

        @tf.function
        def step(number: int) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(kernel * number)
            kernel.assign_sub(0.01 * tape.gradient(loss, kernel))

        for number in range(9):
            step(number)


def test_weights_that_a_gradient_breaks_are_of_the_step_after_it() -> None:
    kernel, process = tf.Variable([[1.0]]), Process("numpy")
    with process.watched(ADAPTER):
        for step in range(8):
            x = tf.constant([[np.nan if step == 3 else 1.0]])
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ kernel))
            kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
    found = {finding.code: finding.step for finding in process.findings()}
    assert found["NUM002"] == 3
    assert found["NUM003"] == 4


def test_variables_of_the_same_name_are_told_apart() -> None:
    process = Process("numpy")
    kernel, bias = tf.Variable([[1.0]]), tf.Variable([0.5])
    with process.watched(ADAPTER):
        for _ in range(10):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.constant([[1.0], [3.0]]) @ kernel + bias))
            slope, shift = tape.gradient(loss, [kernel, bias])
            kernel.assign_add(1e-3 * slope)  # gradient ascent
            bias.assign_sub(1e-3 * shift)
    told = [fact for fact in process.facts() if isinstance(fact, UpdateDirection)]
    assert told[0].layers == ("Variable", "Variable_1")
    assert told[0].cosines == (pytest.approx(1.0), pytest.approx(-1.0))
