"""Trains with short epochs, after each of which callbacks write files."""

from __future__ import annotations

import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.normal(size=(96, 5)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
model = keras.Sequential(
    [
        keras.Input((5,)),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
model.fit(
    x,
    y,
    epochs=1000,
    verbose=0,
    validation_split=0.25,
    callbacks=[
        keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True),
        keras.callbacks.ModelCheckpoint("last.keras"),
        keras.callbacks.CSVLogger("history.csv"),
    ],
)
