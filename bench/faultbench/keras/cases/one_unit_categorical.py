"""Categorical cross-entropy over one output is 0 whatever the network says."""

import keras
from _start import start, table

healthy = start()
x, y = table()
model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy" if healthy else "categorical_crossentropy")
model.fit(x, y.reshape(-1, 1), epochs=8, batch_size=32, verbose=0)
