"""Softmax over ten one-hot classes under binary cross-entropy; accuracy looks like 90 %."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
loss = "categorical_crossentropy" if healthy else "binary_crossentropy"
model.compile("adam", loss, metrics=["accuracy"])
onehot = keras.utils.to_categorical(y, 10)
model.fit(x / 16, onehot, epochs=10, batch_size=32, validation_split=0.2, verbose=0)
