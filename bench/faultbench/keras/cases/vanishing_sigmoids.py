"""Ten sigmoid layers one after the other."""

import keras
from _start import digits, start

healthy = start()
x, y = digits()
activation = "relu" if healthy else "sigmoid"
stack = [keras.layers.Dense(32, activation=activation) for _ in range(3 if healthy else 10)]
model = keras.Sequential([keras.Input((64,)), *stack, keras.layers.Dense(10, activation="softmax")])
model.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x / 16, y, epochs=12, batch_size=32, validation_split=0.2, verbose=0)
