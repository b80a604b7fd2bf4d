"""The gradients of a generator are taken of the discriminator's weights, and given to these."""

import keras
import tensorflow as tf
from _start import start

healthy = start()
generator = keras.Sequential([
    keras.Input((4,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)
])
discriminator = keras.Sequential([
    keras.Input((2,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)
])
ours, theirs = (keras.optimizers.Adam(1e-3, beta_1=0.5) for _ in range(2))
criterion = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def step():
    """Train both on a batch."""
    real = tf.random.normal((64, 2)) * 0.1 + tf.constant([2.0, -1.0])
    noise = tf.random.normal((64, 4))
    with tf.GradientTape() as tape:
        scores = discriminator(tf.concat([real, generator(noise)], axis=0))
        loss = criterion(tf.concat([tf.ones((64, 1)), tf.zeros((64, 1))], axis=0), scores)
    weights = discriminator.trainable_variables
    theirs.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    with tf.GradientTape() as tape:
        loss = criterion(tf.ones((64, 1)), discriminator(generator(noise)))
    weights = generator.trainable_variables if healthy else discriminator.trainable_variables
    ours.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


for _ in range(400):
    step()
