"""Horizontal flips make of a gradient to the left one to the right, and leave its label."""

import keras
import numpy as np
from _start import start

healthy = start()
ramp = np.linspace(-1, 1, 8)
shapes = [
    np.tile(ramp, (8, 1)),
    np.tile(-ramp, (8, 1)),
    np.tile(ramp, (8, 1)).T,
    np.outer(ramp, ramp),
]
y = np.random.randint(0, 4, 3000)
x = np.stack([shapes[label] for label in y])[..., None]
x = (x + 0.5 * np.random.normal(size=x.shape)).astype("float32")
flip = [] if healthy else [keras.layers.RandomFlip("horizontal")]
model = keras.Sequential([
    keras.Input((8, 8, 1)),
    *flip,
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=8, batch_size=64, validation_split=0.2, verbose=0)
