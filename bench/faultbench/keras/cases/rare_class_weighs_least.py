"""The weights of two classes are swapped: the rare one counts even less."""

import keras
import numpy as np
from _start import start, table

healthy = start()
x, y = table(rows=3000)
kept = (y == 0) | (np.arange(len(y)) % 6 == 0)
x, y = x[kept], y[kept]
share = float(y.mean())
weights = [0.5 / (1 - share), 0.5 / share]
if not healthy:
    weights.reverse()
model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=15, validation_split=0.2, verbose=0, class_weight=dict(enumerate(weights)))
