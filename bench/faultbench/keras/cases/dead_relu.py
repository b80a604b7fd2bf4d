"""Biases far below 0 keep every rectifier from ever firing."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
bias = keras.initializers.Constant(0.0 if healthy else -10.0)
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu", bias_initializer=bias),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=10, batch_size=32, validation_split=0.2, verbose=0)
