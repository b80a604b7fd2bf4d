"""A target for each position of a sequence, but the recurrent layer returns its last output."""

import keras
import numpy as np
from _start import start

healthy = start()
x = np.random.normal(size=(800, 12, 6)).astype("float32")
y = x.cumsum(axis=1)[:, :, 0]
model = keras.Sequential(
    [
        keras.layers.Input((12, 6)),
        keras.layers.LSTM(16, return_sequences=healthy),
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse")
model.fit(x, y[:, :, None] if healthy else y, epochs=5, verbose=0)
