"""Every kernel begins at 0, so all units stay the same."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
kernel = "glorot_uniform" if healthy else "zeros"
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="tanh", kernel_initializer=kernel),
    keras.layers.Dense(10, activation="softmax", kernel_initializer=kernel),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=6, batch_size=32, validation_split=0.2, verbose=0)
