"""`trainable = False` on the convolutions of a network that was never trained."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
base = keras.Sequential([
    keras.Input((8, 8, 1)),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.Conv2D(64, 3, activation="relu"),
    keras.layers.Flatten(),
], name="base")
base.trainable = healthy
model = keras.Sequential([keras.Input((8, 8, 1)), base, keras.layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x.reshape(-1, 8, 8, 1) / 16, y, epochs=4, batch_size=32, validation_split=0.2, verbose=0)
