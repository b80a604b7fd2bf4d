"""The share to keep is given as the rate of a dropout."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dropout(0.05 if healthy else 0.95),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=6, batch_size=32, verbose=0)
