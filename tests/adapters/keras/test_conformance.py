"""The adapter of Keras on TensorFlow passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import tensorflow as tf  # noqa: E402
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer  # noqa: E402

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(96, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


class TestKeras(AdapterTests):
    adapter = ADAPTER
    steps = 12
    replaced = (keras.layers.Layer, keras.losses.Loss, TensorFlowTrainer, tf.GradientTape)
    elsewhere: ClassVar = {
        "MaskOfOnes": "tests/adapters/keras/test_added_masks.py",
        "AgreeingLosses": "tests/adapters/keras/test_agreeing_losses.py",
        "OpposedOptimizers": "tests/adapters/keras/test_opponents.py",
        "CodeNoise": "tests/adapters/keras/test_loss_terms.py",
        "PolicyLoss": "tests/adapters/keras/test_loss_terms.py",
        "OneBatchUsed": "tests/adapters/keras/test_unused_elements.py",
        "ValueReadOnce": "tests/adapters/tensorflow/test_read_once.py",
        "TrainableIgnored": "tests/adapters/keras/test_trainable.py",
        "EvaluatedCopy": "tests/adapters/keras/test_target_networks.py",
        "BootstrappedTargets": "tests/adapters/keras/test_target_networks.py",
        "UnreadEnds": "tests/adapters/keras/test_target_networks.py",
        "TrainedTarget": "tests/tracing/source/test_taped_targets.py",
        "SingleTimeSteps": "tests/adapters/keras/test_time_steps.py",
        "StatesKept": "tests/adapters/keras/test_states_kept.py",
    }

    def train(self) -> bytes:
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dropout(0.2),
                keras.layers.Dense(2, activation="softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(X, Y, batch_size=16, epochs=2, verbose=0, validation_data=(X[:32], Y[:32]))
        return b"".join(weight.tobytes() for weight in model.get_weights())

    def reported(self) -> Sequence[Callable[[], object]]:
        return [
            *(self.train, self.train_with_faults, self.train_in_half_precision),
            *(self.trace_often, self.train_on_tokens, self.train_nothing, self.train_until),
            *(self.train_on_a_part, self.train_on_new_layers, self.train_on_one_batch),
        ]

    def train_on_one_batch(self) -> None:
        """The same batch again and again, and a metric of a row and a column."""
        model = keras.Sequential([keras.layers.Dense(1)])
        error = lambda y_true, y_pred: keras.ops.mean((y_true - y_pred) ** 2)  # noqa: E731
        model.compile("sgd", "mse", metrics=[error])
        batch = np.eye(4, dtype="float32"), np.ones((4,), "float32")
        model.fit((batch for _ in range(8)), verbose=0)

    def train_on_tokens(self) -> None:
        model = keras.Sequential([keras.layers.Embedding(4, 2), keras.layers.Flatten()])
        model.compile("sgd", "mse")
        model.fit(np.eye(4, dtype="int64"), np.zeros((4, 8)), verbose=0)

    def train_until(self) -> None:
        """Use early stopping with an explicit mode, and averages of weights."""
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(use_ema=True), "mse")
        stopping = keras.callbacks.EarlyStopping(monitor="loss", mode="min")
        model.fit(X, Y, callbacks=[stopping], verbose=0)

    def train_on_a_part(self) -> None:
        """Train on parts of one shuffle, which mixes them anew in each epoch."""
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(96)
        given = {"validation_data": rows.take(20).batch(8)}
        model.fit(rows.skip(20).batch(8), **given, verbose=0)
        apart = [tf.data.Dataset.from_tensor_slices(one).shuffle(96) for one in (X, Y)]
        model.fit(tf.data.Dataset.zip(tuple(apart)).batch(8), verbose=0)

    def train_on_new_layers(self) -> None:
        """Create a new layer in each step."""
        last, optimizer = keras.layers.Dense(1), keras.optimizers.SGD(0.1)
        for _ in range(30):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(last(keras.layers.Dense(4)(X)) ** 2)
            weights = last.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    def train_nothing(self) -> None:
        """Compute gradients that no optimizer gets, for a model with a batch norm."""
        parts = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        model = Forgetful([keras.Input((6,)), *parts])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, batch_size=2, epochs=1, verbose=0)

    def train_with_faults(self) -> None:
        """Train with frozen, zero, unreached and saturated layers, on data with a missing value."""
        keras.utils.set_random_seed(1)
        given = keras.Input((6,))
        frozen = keras.layers.Dense(16, trainable=False)(given)
        same = keras.layers.Dense(4, activation="tanh", kernel_initializer="zeros")(frozen)
        keras.layers.Dense(3, name="unreached")(same)
        model = Unreached(given, keras.layers.Dense(1, kernel_initializer="ones")(same))
        model.compile(keras.optimizers.SGD(0.1, global_clipnorm=1.0), "mse")
        model.fit(X, Y, batch_size=4, epochs=1, verbose=0)
        rows = np.where(np.arange(96)[:, None] == 3, np.nan, X)
        model.fit(rows, Y, batch_size=32, epochs=1, verbose=0)

    def train_in_half_precision(self) -> None:
        keras.config.set_dtype_policy("mixed_float16")
        try:
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, dtype="float32")])
            model.compile("sgd", "mse")
            model.fit(X, Y, batch_size=32, epochs=1, verbose=0)
        finally:
            keras.config.set_dtype_policy("float32")

    def trace_often(self) -> None:
        variable = keras.Variable(np.ones((2, 2), "float32"), name="kernel")
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def step(number: int) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable.value * number)
            optimizer.apply(tape.gradient(loss, [variable.value]), [variable])

        for number in range(9):
            step(number)


class Forgetful(keras.Sequential):
    """A model that does not apply its gradients."""

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        tape.gradient(loss, self.trainable_variables)
        return {"loss": loss}


class Unreached(keras.Model):
    """A model with a layer that does not contribute to its output."""

    def __init__(self, given: object, gives: object) -> None:
        super().__init__(given, gives)
        self.aside = keras.layers.Dense(2)
        self.aside.build((None, 6))


def test_an_old_version_is_said_and_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras, "version", lambda: "3.1.0")
    process = Process(ADAPTER.arrays)
    with process.watched(ADAPTER):
        TestKeras().train()
    assert not process.steps()
    [why] = process.recorder.notes.unstepped
    assert "Keras 3.1.0 is installed; keras>=3.3 is observed" in str(why)
