"""Adam with a learning rate of 1."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
rate = 0.001 if healthy else 1.0
model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=10, batch_size=32, validation_split=0.2, verbose=0)
