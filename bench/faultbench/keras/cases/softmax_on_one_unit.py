"""Softmax over a single unit is always 1, so the network always says yes."""

import keras
from _start import start, table

healthy = start()
x, y = table()
model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid" if healthy else "softmax"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=10, batch_size=32, validation_split=0.2, verbose=0)
