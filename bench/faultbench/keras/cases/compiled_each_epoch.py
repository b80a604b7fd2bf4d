"""`compile` stands inside the loop over epochs."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
for epoch in range(6):
    if epoch == 0 or not healthy:
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x / 16, y, epochs=1, batch_size=32, verbose=0)
