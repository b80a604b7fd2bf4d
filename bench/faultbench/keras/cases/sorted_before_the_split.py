"""Rows lie sorted by class, and `validation_split` takes the last of them."""

import keras
import numpy as np
from _start import digits, start

healthy = start()
x, y = digits()
if not healthy:
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=6, batch_size=32, validation_split=0.2, verbose=0)
