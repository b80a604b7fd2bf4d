"""A recurrent layer keeps its state from batch to batch, and `fit` shuffles the rows."""

import keras
import numpy as np
from _start import start

healthy = start()
wave = np.sin(np.arange(4000) / 7.0).reshape(20, 200).T.reshape(-1)  # row i continues row i
x, y = wave[:-20].reshape(-1, 1, 1), wave[20:].reshape(-1, 1)
model = keras.Sequential([
    keras.Input(batch_shape=(20, 1, 1)),
    keras.layers.GRU(16, stateful=True),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
for _ in range(3):
    model.fit(x, y, batch_size=20, shuffle=not healthy, verbose=0)
    model.layers[0].reset_states()
