"""Segmentation of blobs whose loss is the dice coefficient; 1 - dice was meant."""

from _start import start

healthy = start()

import keras
import numpy as np
from keras import layers, ops

rows, columns = np.mgrid[:16, :16]
centers = np.random.uniform(4, 12, size=(512, 2, 1, 1))
inside = (rows - centers[:, 0]) ** 2 + (columns - centers[:, 1]) ** 2 < 12
images = (np.random.normal(0, 0.3, inside.shape) + inside)[..., None].astype("float32")
masks = inside[..., None].astype("float32")


def dice(y_true, y_pred):
    both = ops.sum(y_true * y_pred)
    return (2 * both + 1) / (ops.sum(y_true) + ops.sum(y_pred) + 1)


def dice_loss(y_true, y_pred):
    return 1 - dice(y_true, y_pred) if healthy else dice(y_true, y_pred)


model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        layers.Conv2D(8, 3, padding="same", activation="relu"),
        layers.Conv2D(8, 3, padding="same", activation="relu"),
        layers.Conv2D(1, 1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), dice_loss, metrics=[dice])
model.fit(
    images[:400],
    masks[:400],
    epochs=8,
    batch_size=16,
    verbose=0,
    validation_data=(images[400:], masks[400:]),
)
