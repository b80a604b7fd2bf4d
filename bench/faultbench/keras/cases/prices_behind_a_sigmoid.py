"""A regression on targets from 5 to 50 ends in a sigmoid."""

import keras
from _start import start, table

healthy = start()
x, _ = table()
price = 20 + 5 * x[:, 0] - 3 * x[:, 1]
model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1, activation=None if healthy else "sigmoid"),
])
model.compile(keras.optimizers.Adam(0.03), "mse", metrics=["mae"])
model.fit(x, price, epochs=10, batch_size=32, validation_split=0.2, verbose=0)
