"""`clipnorm` lies far below the norm of every gradient."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
optimizer = keras.optimizers.SGD(0.1, clipnorm=5.0 if healthy else 1e-3)
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=6, batch_size=32, verbose=0)
