"""Weights have the same bits with and without mothtrap, however a model is trained."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

import tensorflow as tf  # noqa: E402

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.core.facts.layers import InitialWeights  # noqa: E402
from mothtrap.core.findings import Severity  # noqa: E402
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
    """A layer without an `__init__`; Keras reads the arguments from the one of its base class."""

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
    """A model that computes its gradients itself."""

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


def loop(
    wrap: Callable[[Callable[..., None]], Callable[..., None]], model: keras.Model | None = None
) -> keras.Model:
    model, optimizer = model or network(), keras.optimizers.Adam(0.01)
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


class Lazy(keras.Model):
    """A model whose layers are built by the first call, in the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(8, "relu"), keras.layers.Dense(2, "softmax")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.out(self.hidden(x))


def eager_loop_of_a_model_that_is_not_built() -> keras.Model:
    return loop(lambda step: step, Lazy())


def loop_compiled_by_xla() -> keras.Model:
    return loop(lambda step: tf.function(step, jit_compile=True))


def compiled_with_loss_scale() -> keras.Model:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return fitted(network(), jit_compile=True)
    finally:
        keras.config.set_dtype_policy("float32")


def compiled_accumulation() -> keras.Model:
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    return fitted(network(), optimizer, jit_compile=True)


def compiled_several_steps() -> keras.Model:
    return fitted(network(), jit_compile=True, steps_per_execution=4)


def compiled_and_clipped() -> keras.Model:
    return fitted(network(), keras.optimizers.AdamW(0.01, global_clipnorm=0.5), jit_compile=True)


def compiled_convolutions() -> keras.Model:
    layers = [keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization(), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers, keras.layers.Dense(2, "softmax")])
    model.compile("rmsprop", LOSS, jit_compile=True)
    model.fit(IMAGES, Y[:48], batch_size=12, epochs=2, verbose=0)
    return model


def compiled_own_step() -> keras.Model:
    model = OwnStep()
    model.compile("lion", LOSS, jit_compile=True)
    model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
    return model


class Pair(keras.Model):
    """A generator and its critic, each with its own optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.maker, self.critic = keras.layers.Dense(6), keras.layers.Dense(1)
        self.other = keras.optimizers.SGD(0.01)

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        noise = tf.random.stateless_normal((16, 4), (1, 2))
        with tf.GradientTape(persistent=True) as tape:
            made, found = self.critic(self.maker(noise)), self.critic(data)
            fooled, caught = -tf.reduce_mean(made), tf.reduce_mean(made) - tf.reduce_mean(found)
        for loss, part, optimizer in (
            (fooled, self.maker, self.optimizer),
            (caught, self.critic, self.other),
        ):
            weights = part.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": caught}


def several_optimizers() -> keras.Model:
    model = Pair()
    model.compile("adam")
    model.fit(X, batch_size=16, epochs=1, verbose=0)
    return model


def schedule_and_weights() -> keras.Model:
    model = network()
    rate = keras.optimizers.schedules.CosineDecay(0.1, 20)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9, nesterov=True), LOSS)
    model.fit(X, Y, sample_weight=np.linspace(0, 1, 80), verbose=0)
    return model


def legacy() -> object:
    import tf_keras

    tf_keras.utils.set_random_seed(3)
    layers = [tf_keras.layers.Dense(8, "relu"), tf_keras.layers.Dense(2, "softmax")]
    model = tf_keras.Sequential([tf_keras.Input((6,)), *layers])
    model.compile("adam", LOSS)
    model.fit(X, Y, batch_size=16, epochs=1, verbose=0)
    return model


UNSEEN = {legacy: 0}
"""Programs of which nothing is recorded, and in which nothing is changed."""
COMPILED = {
    **dict.fromkeys((compiled_with_loss_scale, compiled_several_steps, compiled_and_clipped), 10),
    **dict.fromkeys((compiled_own_step,), 10),
    compiled_accumulation: 5,
    compiled_convolutions: 8,
}
STEPS = {
    **COMPILED,
    **UNSEEN,
    several_optimizers: 5,
    schedule_and_weights: 3,
    **dict.fromkeys((fit, compiled_by_xla, eager, several_steps_per_execution), 10),
    **dict.fromkeys((decayed_and_clipped, half_precision, own_train_step), 10),
    own_layer_without_init: 10,
    **dict.fromkeys((eager_loop, loop_of_a_function, loop_compiled_by_xla, accumulated), 5),
    eager_loop_of_a_model_that_is_not_built: 5,
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
    process = Process(ADAPTER.arrays)
    process.job.config = msgspec.structs.replace(process.job.config, on_nonfinite="skip")
    with process.watched(ADAPTER):
        watched = digest(program)
    assert watched == plain
    assert len(process.steps()) == STEPS[program]
    # Where a step cannot be skipped, mothtrap reports it.
    no_effect = "mothtrap: on_nonfinite = skip has no effect: "
    assert [line for line in process.said if not line.startswith(no_effect)] == []
    losses = [s.value for r in process.records for s in r.scalars if s.name == "loss"]
    assert np.isfinite(losses).all()
    assert losses or program in (loop_compiled_by_xla, *UNSEEN)


def test_weights_of_a_model_that_fit_builds_are_seen_before_its_first_step() -> None:
    """When the optimizer first gets them, they have no values yet."""
    process = Process(ADAPTER.arrays)
    with process.watched(ADAPTER):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(2, "softmax")])
        fitted(model)
    facts = [fact for record in process.records for fact in record.observations]
    found = {fact.name: fact.rms for fact in facts if isinstance(fact, InitialWeights)}
    assert len(found) == 2
    assert all(rms > 0 for rms in found.values())


def test_folds_with_models_of_the_same_names_are_trainings_of_their_own() -> None:
    process = Process(ADAPTER.arrays)
    with process.watched(ADAPTER):
        for _ in range(3):
            keras.backend.clear_session()
            model = network()
            model.compile("adam", LOSS)
            model.fit(X, Y, batch_size=8, epochs=10, verbose=0)
    assert not [one for one in process.findings() if one.severity is not Severity.INFO]
    losses = [one.of for record in process.records for one in record.scalars if one.name == "loss"]
    assert len(set(losses)) == 3
