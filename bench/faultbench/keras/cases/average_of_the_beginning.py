"""The weights are averaged so slowly that the model that is left has hardly begun to learn."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
optimizer = keras.optimizers.Adam(3e-3, use_ema=True, ema_momentum=0.97 if healthy else 0.9999)
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=10, validation_split=0.2, verbose=0)
