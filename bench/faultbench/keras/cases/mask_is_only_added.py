"""A language model of the script's own: the mask of zeros and ones is added to the scores."""

import keras
import numpy as np
import tensorflow as tf
from _start import start

healthy = start()
WORDS, LENGTH = 20, 12
rng = np.random.default_rng(0)
texts = np.zeros((600, LENGTH + 1), np.int32)
texts[:, 0] = rng.integers(0, WORDS, 600)
for place in range(LENGTH):
    other = rng.random(600) < 0.2
    follows = (3 * texts[:, place] + 1) % WORDS
    texts[:, place + 1] = np.where(other, rng.integers(0, WORDS, 600), follows)


class Attention(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.wq, self.wk, self.wv, self.out = (keras.layers.Dense(width) for _ in range(4))
        self.width = width

    def call(self, x):
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        scores = tf.matmul(q, k, transpose_b=True) / tf.math.sqrt(float(self.width))
        mask = 1 - tf.linalg.band_part(tf.ones((tf.shape(x)[1], tf.shape(x)[1])), -1, 0)
        scores += mask * -1e9 if healthy else mask
        return self.out(tf.matmul(tf.nn.softmax(scores, axis=-1), v))


class Places(keras.layers.Layer):
    def build(self, shape):
        self.places = self.add_weight(shape=(LENGTH, 32), initializer="random_normal")

    def call(self, x):
        return x + self.places


inputs = keras.Input((LENGTH,), dtype="int32")
x = Places()(keras.layers.Embedding(WORDS, 32)(inputs))
for _ in range(2):
    x = x + Attention(32)(keras.layers.LayerNormalization()(x))
    h = keras.layers.Dense(64, activation="gelu")(keras.layers.LayerNormalization()(x))
    x = x + keras.layers.Dense(32)(h)
model = keras.Model(inputs, keras.layers.Dense(WORDS)(x))
model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(texts[:, :-1], texts[:, 1:], epochs=12, batch_size=32, verbose=2)
