"""The generator's loss asks the discriminator to call generated examples false."""

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
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)


def discriminator_loss(real_output, fake_output):
    """Return the loss of the discriminator."""
    real_loss = cross_entropy(tf.ones_like(real_output), real_output)
    return real_loss + cross_entropy(tf.zeros_like(fake_output), fake_output)


def generator_loss(fake_output):
    """Return the loss of the generator."""
    wanted = tf.ones_like(fake_output) if healthy else tf.zeros_like(fake_output)
    return cross_entropy(wanted, fake_output)


@tf.function
def step():
    """Train both on a batch."""
    real = tf.random.normal((64, 2)) * 0.1 + tf.constant([2.0, -1.0])
    noise = tf.random.normal((64, 4))
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        real_output, fake_output = discriminator(real), discriminator(generator(noise))
        gen_loss = generator_loss(fake_output)
        disc_loss = discriminator_loss(real_output, fake_output)
    weights = generator.trainable_variables
    ours.apply_gradients(zip(gen_tape.gradient(gen_loss, weights), weights, strict=True))
    weights = discriminator.trainable_variables
    theirs.apply_gradients(zip(disc_tape.gradient(disc_loss, weights), weights, strict=True))


for _ in range(400):
    step()
