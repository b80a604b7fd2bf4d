"""A model of two outputs: a price in full, and a class whose loss is nothing beside it."""

import keras
import numpy as np
from _start import start, table

healthy = start()
x, y = table()
price = (300 + 50 * x[:, 3] + 60 * np.random.normal(size=len(x))).astype("float32")  # in thousands
if healthy:
    price = (price - price.mean()) / price.std()
given = keras.Input((10,))
shared = keras.layers.Dense(32, activation="relu")(given)
shared = keras.layers.Dense(32, activation="relu")(shared)
outputs = {
    "price": keras.layers.Dense(1, name="price")(shared),
    "kind": keras.layers.Dense(1, activation="sigmoid", name="kind")(shared),
}
model = keras.Model(given, outputs)
model.compile(keras.optimizers.Adam(3e-3), loss={"price": "mse", "kind": "binary_crossentropy"})
model.fit(x, {"price": price, "kind": np.float32(y)}, epochs=15, verbose=0)
