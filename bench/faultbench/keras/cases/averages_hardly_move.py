"""Batch norms follow their batches so slowly that evaluations go by what they began with."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.BatchNormalization(momentum=0.9 if healthy else 0.9999),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.BatchNormalization(momentum=0.9 if healthy else 0.9999),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=12, batch_size=64, validation_split=0.2, verbose=0)
