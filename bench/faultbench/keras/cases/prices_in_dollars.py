"""Prices of houses are learned in dollars: Adam moves the output by a thousandth in each step."""

import keras
import numpy as np
from _start import start

healthy = start()
x = np.random.normal(size=(1500, 8)).astype("float32")
prices = 300_000 + 90_000 * np.tanh(x[:, 0] - 0.5 * x[:, 1]) + 10_000 * np.random.normal(size=1500)
y = (prices - prices.mean()) / prices.std() if healthy else prices
model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
model.fit(x, y.astype("float32"), validation_split=0.2, epochs=12, batch_size=32, verbose=0)
