"""An LSTM that is to predict a series sees a window of one value."""

import keras
import numpy as np
from _start import start

healthy = start()
steps = 20 if healthy else 1
noise = np.random.default_rng(0).normal(0, 0.1, 1500)
series = (np.sin(np.arange(1500) / 5.0) + noise).astype("float32")
rows = range(len(series) - 20)
x = np.stack([series[i + 20 - steps : i + 20] for i in rows])[..., None]
y = series[20:, None]
model = keras.Sequential([
    keras.Input((steps, 1)),
    keras.layers.LSTM(16),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(x, y, batch_size=20, epochs=3, verbose=0)
