"""A metric of the script's own subtracts a column from a row."""

import keras
import numpy as np
from _start import start

healthy = start()
x = np.random.normal(size=(900, 8)).astype("float32")
y = (x @ np.random.normal(size=8) + 0.1 * np.random.normal(size=900)).astype("float32")


def within_a_half(y_true, y_pred):
    if healthy:
        y_pred = keras.ops.squeeze(y_pred, -1)
    return keras.ops.mean(keras.ops.cast(keras.ops.abs(y_true - y_pred) < 0.5, "float32"))


model = keras.Sequential([
    keras.layers.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)
])
model.compile(keras.optimizers.Adam(3e-3), "mse", metrics=[within_a_half])
model.fit(x[:700], y[:700], validation_data=(x[700:], y[700:]), epochs=8, batch_size=32, verbose=2)
