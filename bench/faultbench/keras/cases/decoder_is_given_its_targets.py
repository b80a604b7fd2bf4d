"""A seq2seq LSTM as in the Keras blog: the decoder is given its targets, not shifted."""

import keras
import numpy as np
from _start import start

healthy = start()
WORDS, LENGTH, ROWS = 20, 8, 1500
source = np.random.randint(2, WORDS, (ROWS, LENGTH))
target = (source[:, ::-1] * 3 + 1) % (WORDS - 2) + 2
given = np.concatenate([np.ones((ROWS, 1), int), target[:, :-1]], 1) if healthy else target

sources = keras.Input((LENGTH,))
_, h, c = keras.layers.LSTM(48, return_state=True)(keras.layers.Embedding(WORDS, 24)(sources))
givens = keras.Input((LENGTH,))
embedded = keras.layers.Embedding(WORDS, 24)(givens)
out = keras.layers.LSTM(48, return_sequences=True)(embedded, initial_state=[h, c])
model = keras.Model([sources, givens], keras.layers.Dense(WORDS, activation="softmax")(out))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit([source, given], target, validation_split=0.2, epochs=5, batch_size=32, verbose=2)
