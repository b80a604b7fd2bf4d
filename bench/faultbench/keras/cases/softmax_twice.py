"""Softmax before a loss of logits, in half precision: the cast between keeps it there."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
keras.mixed_precision.set_global_policy("mixed_bfloat16")
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation=None if healthy else "softmax"),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x / 16, y, epochs=12, batch_size=32, validation_split=0.2, verbose=0)
