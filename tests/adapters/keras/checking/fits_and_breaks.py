"""Fits a network of named layers; the argument plants a fault in a callback or in the data."""

from __future__ import annotations

import sys

import keras
import numpy as np

fault = sys.argv[1]
keras.utils.set_random_seed(0)
x = np.random.normal(size=(240, 5)).astype("float32")
y = (x[:, 0] > 0).astype("int64")


class Rows(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if fault == "data" and index == 6:
            raise ValueError("batch 6 cannot be read")
        rows = slice(20 * index, 20 * index + 20)
        return x[rows], y[rows]


def parsed(number: np.ndarray) -> np.ndarray:
    if fault == "record" and int(number) == 130:
        raise ValueError("record 130 cannot be read")
    return x[int(number)]


def pipeline() -> object:
    """Return the rows as a `tf.data` pipeline."""
    import tensorflow as tf

    def record(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        row = tf.numpy_function(parsed, [number], tf.float32)
        return tf.ensure_shape(row, (5,)), tf.gather(y, number)

    return tf.data.Dataset.range(240).map(record).batch(20)


class Told(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if fault == "callback" and epoch == 2:
            print((logs or {})["f1"])


model = keras.Sequential(
    [
        keras.Input((5,)),
        keras.layers.Dense(8, activation="relu", name="body"),
        keras.layers.Dense(2, activation="softmax", name="head"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    pipeline() if fault in ("record", "tf.data") else Rows(),
    epochs=30,
    verbose=0,
    validation_data=(x[:40], y[:40]),
    callbacks=[Told(), keras.callbacks.CSVLogger("history.csv")],
)
