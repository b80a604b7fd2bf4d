"""A language model is to say the token that it is given, not the next one."""

import keras
import numpy as np
from _start import start

healthy = start()
rng = np.random.default_rng(0)
follows = rng.dirichlet(np.full(24, 0.2), 24)
tokens = np.zeros((500, 33), np.int64)
tokens[:, 0] = rng.integers(0, 24, 500)
for place in range(1, 33):
    chances = follows[tokens[:, place - 1]].cumsum(axis=1)
    tokens[:, place] = (rng.random((500, 1)) < chances).argmax(axis=1)
inputs, targets = tokens[:, :-1], tokens[:, 1:] if healthy else tokens[:, :-1]
model = keras.Sequential([
    keras.layers.Embedding(24, 16),
    keras.layers.GRU(48, return_sequences=True),
    keras.layers.Dense(24),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(inputs, targets, epochs=12, batch_size=32, validation_split=0.1, verbose=0)
