"""`run_eagerly=True`, set while debugging, was left on."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], run_eagerly=not healthy)
model.fit(x / 16, y, epochs=6, batch_size=32, validation_split=0.2, verbose=0)
