"""An epsilon of 1 outweighs the gradients, so that Adam makes steps of a hundredth of its rate."""

import keras
from _start import start, table

healthy = start()
x, y = table(rows=1500)
model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(32, activation="tanh"),
    keras.layers.Dense(1, activation="sigmoid"),
])
optimizer = keras.optimizers.Adam(3e-3, epsilon=1e-7 if healthy else 1.0)
model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=10, batch_size=64, verbose=0)
