"""A batch norm gets batches of one row."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[:400] / 16, y[:400], epochs=2, batch_size=32 if healthy else 1, verbose=0)
