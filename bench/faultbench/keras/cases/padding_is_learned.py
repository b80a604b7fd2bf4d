"""Sequences padded to ten times their length, without `mask_zero`."""

import keras
import numpy as np
from _start import start

healthy = start()
x = np.zeros((800, 60), "int64")
y = np.zeros((800, 60), "int64")
for row in range(800):
    length = np.random.randint(4, 8)
    x[row, :length] = np.random.randint(1, 30, length)
    y[row, :length] = x[row, :length] % 3 + 1
model = keras.Sequential([
    keras.layers.Embedding(30, 16, mask_zero=healthy),
    keras.layers.LSTM(16, return_sequences=True),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3, batch_size=32, verbose=0)
