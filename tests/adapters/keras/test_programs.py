"""Weights are the same bits with and without mothtrap, however a model is trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import tensorflow as tf  # noqa: E402

from mothtrap.adapters import keras as adapter  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 6)).astype("float32")
Y = (X[:, 0] * X[:, 1] > 0).astype("int64")
TOKENS = RNG.integers(0, 20, size=(32, 7))
IMAGES = RNG.normal(size=(48, 8, 8, 1)).astype("float32")
LOSS = "sparse_categorical_crossentropy"


def network() -> keras.Model:
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.3)]
    return keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(2, "softmax")])


def fitted(model: keras.Model, optimizer: object = "adam", **given: object) -> keras.Model:
    model.compile(optimizer, LOSS, metrics=["accuracy"], **given)
    model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
    return model


def fit() -> keras.Model:
    return fitted(network())


def compiled_by_xla() -> keras.Model:
    return fitted(network(), jit_compile=True)


def eager() -> keras.Model:
    return fitted(network(), run_eagerly=True)


def several_steps_per_execution() -> keras.Model:
    return fitted(network(), steps_per_execution=4)


def accumulated() -> keras.Model:
    return fitted(network(), keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))


def decayed_and_clipped() -> keras.Model:
    return fitted(network(), keras.optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=0.5))


def half_precision() -> keras.Model:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return fitted(network())
    finally:
        keras.config.set_dtype_policy("float32")


def convolutions() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Flatten(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("rmsprop", "binary_crossentropy")
    model.fit(tf.data.Dataset.from_tensor_slices((IMAGES, Y[:48])).batch(12), epochs=2, verbose=0)
    return model


def recurrent_on_batches() -> keras.Model:
    model = keras.Sequential(
        [keras.layers.Embedding(20, 4), keras.layers.LSTM(5), keras.layers.Dense(2, "softmax")]
    )
    model.compile("nadam", LOSS)
    for _ in range(4):
        model.train_on_batch(TOKENS, Y[:32])
    return model


class Distance(keras.layers.Layer):
    """A layer without an `__init__`, whose arguments Keras reads off that of its base."""

    def call(self, pair: list[tf.Tensor]) -> tf.Tensor:
        return keras.ops.sum(keras.ops.square(pair[0] - pair[1]), axis=1, keepdims=True)


def own_layer_without_init() -> keras.Model:
    coder = keras.layers.Dense(4, activation="tanh")
    left, right = keras.Input((6,)), keras.Input((6,))
    model = keras.Model([left, right], Distance()([coder(left), coder(right)]))
    model.compile("adam", "mse")
    model.fit([X, X[::-1].copy()], Y, batch_size=16, epochs=2, verbose=0)
    return model


class OwnStep(keras.Model):
    """A model that takes its gradients itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = network()

    def call(self, x: tf.Tensor, *, training: bool = False) -> tf.Tensor:
        return self.inside(x, training=training)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def own_train_step() -> keras.Model:
    model = OwnStep()
    model.compile("adam", LOSS)
    model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
    return model


def loop(wrap: Callable[[Callable[..., None]], Callable[..., None]]) -> keras.Model:
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    loss_of = keras.losses.SparseCategoricalCrossentropy()

    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    act = wrap(step)
    for begin in range(0, 80, 16):
        act(tf.constant(X[begin : begin + 16]), tf.constant(Y[begin : begin + 16]))
    return model


def eager_loop() -> keras.Model:
    return loop(lambda step: step)


def loop_of_a_function() -> keras.Model:
    return loop(tf.function)


def loop_compiled_by_xla() -> keras.Model:
    return loop(lambda step: tf.function(step, jit_compile=True))


STEPS = {
    **dict.fromkeys((fit, compiled_by_xla, eager, several_steps_per_execution), 10),
    **dict.fromkeys((decayed_and_clipped, half_precision, own_train_step), 10),
    own_layer_without_init: 10,
    **dict.fromkeys((eager_loop, loop_of_a_function, loop_compiled_by_xla, accumulated), 5),
    convolutions: 8,
    recurrent_on_batches: 4,
}


def digest(program: Callable[[], keras.Model]) -> bytes:
    keras.utils.set_random_seed(3)
    return b"".join(weight.tobytes() for weight in program().get_weights())


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(each, id=each.__name__, marks=pytest.mark.smoke)
        if each in (fit, own_train_step, loop_of_a_function)
        else pytest.param(each, id=each.__name__)
        for each in STEPS
    ],
)
def test_the_weights_are_the_same_bits(program: Callable[[], keras.Model]) -> None:
    plain = digest(program)
    process = Process(adapter.ARRAYS)
    with process.watched(adapter):
        watched = digest(program)
    assert watched == plain
    assert len(process.steps()) == STEPS[program]
    assert process.said == []
    losses = [s.value for r in process.records for s in r.scalars if s.name == "loss"]
    assert np.isfinite(losses).all()
    assert losses or program is loop_compiled_by_xla  # its inside is hidden
