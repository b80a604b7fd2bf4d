"""The modes in which Keras layers run in training steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.evaluations import TrainingMode  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class OwnDropout(keras.layers.Layer):  # type: ignore[misc,unused-ignore]
    """Drops values in each call, without a training flag."""

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.seeds = 0.2, keras.random.SeedGenerator(0)

    def call(self, x: Any) -> Any:
        return keras.random.dropout(x, self.rate, seed=self.seeds)


class DropoutByDefault(OwnDropout):
    """Drops values unless the flag says not to."""

    def call(self, x: Any, training: bool = True) -> Any:
        return super().call(x) if training else x


class WithoutFlag(keras.Model):  # type: ignore[misc,unused-ignore]
    """Calls a layer and takes no training flag, so `fit` passes it none."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.last = layer, keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.last(self.layer(x))


class Distilled(keras.Model):  # type: ignore[misc,unused-ignore]
    """Trains a student on what a teacher predicts."""

    def __init__(self, teacher: Any) -> None:
        super().__init__()
        self.student = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        self.teacher = teacher

    def call(self, x: Any, training: bool = False) -> Any:
        return self.student(x, training=training)

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        return LOSS(y, y_pred) + tf.reduce_mean((self.teacher(x, training=False) - y_pred) ** 2)


def dropping() -> Any:
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)], name="teacher"
    )


def modes_of_fit(model: Any) -> list[TrainingMode]:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model.compile("sgd", LOSS)
        model.fit(X, Y, batch_size=10, verbose=0)
    return [one for one in process.facts() if isinstance(one, TrainingMode)]


def test_a_layer_without_the_flag_drops_in_each_mode() -> None:
    assert modes_of_fit(WithoutFlag(OwnDropout())) == []


def test_the_default_of_the_flag_counts_where_no_call_gives_it() -> None:
    [mode] = modes_of_fit(WithoutFlag(DropoutByDefault()))
    assert mode.trains
    assert mode.sleeping == ()


def test_a_model_without_the_flag_trains_in_evaluation_mode() -> None:
    [mode] = modes_of_fit(WithoutFlag(keras.layers.Dropout(0.5)))
    assert not mode.trains


def test_a_frozen_teacher_is_not_trained_in_evaluation_mode() -> None:
    teacher = dropping()
    teacher.trainable = False
    assert modes_of_fit(Distilled(teacher)) == []


def test_frozen_layers_within_a_model_that_trains_follow_no_mode() -> None:
    base = dropping()
    base.trainable = False
    assert modes_of_fit(WithoutFlag(base)) == []


@pytest.mark.parametrize("held", [False, True])
def test_a_model_that_no_optimizer_holds_is_not_trained(held: bool) -> None:
    teacher = dropping()
    student = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    weights = student.trainable_variables + held * teacher.trainable_variables
    optimizer = keras.optimizers.SGD(0.1)
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        for _ in range(3):
            with tf.GradientTape() as tape:
                aim = teacher(X, training=False)
                loss = tf.reduce_mean((aim - student(X, training=True)) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    modes = [one for one in process.facts() if isinstance(one, TrainingMode)]
    assert [(one.module, one.trains) for one in modes] == [("teacher", False)] * held
