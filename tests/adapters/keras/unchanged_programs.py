"""Ten programs of different kinds, trained one after the other; the script prints their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(1)
X = RNG.normal(size=(192, 12)).astype("float32")
Y = (X[:, :3].sum(axis=1) > 0).astype("float32")
IMAGES = RNG.uniform(0, 255, size=(96, 16, 16, 3)).astype("float32")
CLASSES = RNG.integers(0, 4, size=96)
TEXTS = RNG.integers(1, 50, size=(96, 20)) * (RNG.uniform(size=(96, 20)) > 0.2)


def functional() -> keras.Model:
    """Two inputs, a shared layer, a regularizer, sample weights, and a validation split."""
    shared = keras.layers.Dense(8, "gelu", kernel_regularizer=keras.regularizers.L2(1e-3))
    left, right = keras.Input((6,)), keras.Input((6,))
    joined = keras.layers.concatenate([shared(left), shared(right)])
    outputs = keras.layers.Dense(1, "sigmoid")(keras.layers.Dropout(0.2)(joined))
    model = keras.Model([left, right], outputs)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", "AUC"])
    given = [X[:, :6].copy(), X[:, 6:].copy()]
    weights = np.linspace(0.5, 1.5, len(Y))
    model.fit(given, Y, sample_weight=weights, epochs=4, validation_split=0.25, verbose=0)
    return model


class Residual(keras.Model):
    """A subclass with normalization, state of its own, and a loss that `call` adds."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [keras.layers.Dense(12, "relu") for _ in range(3)]
        self.norms = [keras.layers.LayerNormalization() for _ in range(3)]
        self.head = keras.layers.Dense(1)
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, given: tf.Tensor, training: bool = False) -> tf.Tensor:
        if training:
            self.calls.assign_add(1.0)
        for block, norm in zip(self.blocks, self.norms, strict=True):
            given = norm(given + block(given))
        self.add_loss(1e-3 * keras.ops.mean(keras.ops.square(given)))
        return self.head(given)


def subclassed() -> keras.Model:
    model = Residual()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), keras.losses.Huber())
    model.fit(X, Y, batch_size=24, epochs=3, verbose=0, validation_data=(X[:48], Y[:48]))
    return model


class Adversarial(keras.Model):
    """A `train_step` with two optimizers, trained alternately, and random numbers inside."""

    def __init__(self) -> None:
        super().__init__()
        self.made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(12)])
        self.judged = keras.Sequential(
            [keras.Input((12,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)]
        )
        self.makes = keras.optimizers.Adam(2e-3)
        self.judges = keras.optimizers.RMSprop(1e-3)
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, real: tf.Tensor) -> dict[str, tf.Tensor]:
        noise = tf.random.normal((tf.shape(real)[0], 4))
        with tf.GradientTape() as tape:
            scores = self.judged(tf.concat([real, self.made(noise)], 0), training=True)
            wanted = tf.concat([tf.ones_like(real[:, :1]), tf.zeros_like(real[:, :1])], 0)
            judged = self.entropy(wanted, scores)
        found = tape.gradient(judged, self.judged.trainable_variables)
        self.judges.apply_gradients(zip(found, self.judged.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            scores = self.judged(self.made(noise, training=True), training=True)
            fooled = self.entropy(tf.ones_like(scores), scores)
        found = tape.gradient(fooled, self.made.trainable_variables)
        self.makes.apply_gradients(zip(found, self.made.trainable_variables, strict=True))
        return {"judged": judged, "fooled": fooled}


def own_train_step() -> keras.Model:
    model = Adversarial()
    model.compile()
    model.fit(tf.data.Dataset.from_tensor_slices(X).batch(24), epochs=3, verbose=0)
    return model


def function_loop() -> keras.Model:
    """A loop inside of one `tf.function`, over a data set, with a schedule and clipping."""
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8, "swish")])
    model.add(keras.layers.Dense(1))
    schedule = keras.optimizers.schedules.CosineDecay(0.05, 24)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=1e-2)
    optimizer.build(model.trainable_variables)
    data = tf.data.Dataset.from_tensor_slices((X, Y[:, None])).shuffle(192, seed=2).batch(24)

    @tf.function
    def epoch() -> tf.Tensor:
        total = tf.constant(0.0)
        for given, wanted in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(given, training=True) - wanted))
            found = tape.gradient(loss, model.trainable_variables)
            found, _ = tf.clip_by_global_norm(found, 0.5)
            optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))
            total += loss
        return total

    for _ in range(3):
        print(float(epoch()).hex())
    return model


def eager_tape() -> keras.Model:
    """An eager loop with a persistent tape, a penalty of gradients, and accumulation."""
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8, "tanh")])
    model.add(keras.layers.Dense(1))
    optimizer = keras.optimizers.Nadam(0.01)
    held = [tf.Variable(tf.zeros_like(each)) for each in model.trainable_variables]
    for number in range(16):
        rows = slice(12 * number, 12 * number + 12)
        given = tf.constant(X[rows])
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                inner.watch(given)
                made = model(given, training=True)
            steepness = tf.norm(inner.gradient(made, given), axis=1)
            loss = tf.reduce_mean(tf.square(made[:, 0] - Y[rows]))
            penalty = tf.reduce_mean(tf.square(steepness - 1.0))
        for variable in (loss, penalty):
            found = outer.gradient(variable, model.trainable_variables)
            for kept, gradient in zip(held, found, strict=True):
                kept.assign_add(tf.zeros_like(kept) if gradient is None else gradient)
        if number % 2:
            optimizer.apply_gradients(zip(held, model.trainable_variables, strict=True))
            for kept in held:
                kept.assign(tf.zeros_like(kept))
        print(float(loss).hex())
    return model


def recurrent() -> keras.Model:
    """Masked texts in a bidirectional LSTM with recurrent dropout, class weights, and a GRU."""
    model = keras.Sequential(
        [
            keras.layers.Embedding(50, 8, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.LSTM(6, return_sequences=True)),
            keras.layers.GRU(6, recurrent_dropout=0.2),
            keras.layers.Dense(4, "softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(TEXTS, CLASSES, epochs=2, verbose=0, class_weight={0: 1, 1: 2, 2: 1, 3: 1})
    return model


def augmented() -> keras.Model:
    """Random layers of images, in the model and in the pipeline, and batch normalization."""
    turned = keras.Sequential([keras.layers.RandomFlip(), keras.layers.RandomRotation(0.1)])
    cropped = keras.layers.RandomTranslation(0.1, 0.1, seed=4)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, CLASSES)).shuffle(96, seed=3).batch(16)
    data = data.map(lambda images, classes: (cropped(images), classes)).prefetch(2)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Rescaling(1 / 255),
            turned,
            keras.layers.Conv2D(6, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    model.fit(data, epochs=3, verbose=0)
    return model


class Noting(keras.callbacks.Callback):
    """Prints numbers of batches and epochs, and changes the learning rate."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if batch % 4 == 0:
            print(float((logs or {})["loss"]).hex())

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        print(sorted(logs or {}))
        self.model.optimizer.learning_rate = 0.01 / (epoch + 1)


def with_callbacks() -> keras.Model:
    """Early stopping that restores weights, plateaus, a moving average, and frozen layers."""
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8, "relu")])
    model.add(keras.layers.Dense(1, "sigmoid"))
    model.layers[0].trainable = False
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "binary_crossentropy")
    stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
    given = [Noting(), stop, keras.callbacks.TerminateOnNaN()]
    model.fit(X, Y, epochs=5, verbose=0, validation_data=(X[::2], Y[1::2]), callbacks=given)
    return model


def half_precision() -> keras.Model:
    """`mixed_float16` with a loss scale that changes, and gradient accumulation."""
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, "relu")])
    model.add(keras.layers.Dense(1, dtype="float32"))
    inner = keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
    scaled = keras.optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=4)
    model.compile(scaled, "mse")
    model.fit(X, Y, batch_size=16, epochs=3, verbose=0)
    keras.config.set_dtype_policy("float32")
    return model


def several_outputs() -> keras.Model:
    """Named outputs with losses and weights of their own, a generator, and metrics by output."""
    inputs = keras.Input((12,), name="given")
    hidden = keras.layers.Dense(8, "relu")(inputs)
    number = keras.layers.Dense(1, name="number")(hidden)
    label = keras.layers.Dense(3, "softmax", name="label")(hidden)
    model = keras.Model(inputs, {"number": number, "label": label})
    losses = {"number": "mae", "label": "categorical_crossentropy"}
    weights = {"number": 0.3, "label": 1.0}
    model.compile("adamax", losses, loss_weights=weights, metrics={"label": ["accuracy"]})
    classes = np.eye(3, dtype="float32")[RNG.integers(0, 3, size=len(X))]

    def batches() -> Iterator[tuple[object, object]]:
        while True:
            for start in range(0, 192, 32):
                rows = slice(start, start + 32)
                yield {"given": X[rows]}, {"number": Y[rows], "label": classes[rows]}

    model.fit(batches(), steps_per_epoch=6, epochs=3, verbose=0)
    print(model.evaluate(X, {"number": Y, "label": classes}, verbose=0))
    return model


PROGRAMS = (
    *(functional, subclassed, own_train_step, function_loop, eager_tape),
    *(recurrent, augmented, with_callbacks, half_precision, several_outputs),
)

if __name__ == "__main__":
    for train in PROGRAMS:
        keras.utils.set_random_seed(5)
        print(train.__name__)
        for number, weight in enumerate(train().weights):
            value = np.asarray(weight)
            print(number, hashlib.sha256(value.tobytes()).hexdigest(), np.isfinite(value).all())
        print(float(np.random.random()).hex(), float(tf.random.uniform(())).hex())
