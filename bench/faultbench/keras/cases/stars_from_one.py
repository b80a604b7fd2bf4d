"""Labels are counted from 1, so that the last class becomes a row of zeros."""

import keras
import numpy as np
from _start import start

healthy = start()
x = np.random.normal(size=(1500, 8)).astype("float32")
stars = np.digitize(x @ np.linspace(-1, 1, 8), [-1.5, -0.5, 0.5, 1.5]) + 1
rows = np.eye(5, dtype="float32")
y = rows[stars - 1] if healthy else np.vstack([rows, np.zeros(5, "float32")])[stars]
model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(5, activation="softmax"),
])
model.compile(keras.optimizers.Adam(3e-3), "categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=8, verbose=0)
