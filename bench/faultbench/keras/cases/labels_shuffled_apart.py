"""Images and labels are shuffled separately."""

import keras
import numpy as np
from _start import digits, start

healthy = start()
x, y = digits()
labels = y if healthy else np.random.permutation(y)
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, labels, epochs=40, batch_size=32, validation_split=0.2, verbose=0)
