"""A generator that begins anew with each batch gives the first rows all the time."""

import keras
from _start import start, table

healthy = start()
x, y = table(rows=2000)


def batches():
    """Yield batches of 32 rows without end."""
    place = 0
    while True:
        yield x[place : place + 32], y[place : place + 32]
        if healthy:
            place = (place + 32) % 1984


model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(batches(), steps_per_epoch=62, epochs=8, verbose=0)
print(model.evaluate(x, y, verbose=0))
