"""One tape: the generator's loss is differentiated for the weights of both networks."""

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
    real = tf.random.normal((64, 2)) * 0.1 + tf.constant([2.0, -1.0])
    noise = tf.random.normal((64, 4))
    with tf.GradientTape(persistent=True) as tape:
        made = generator(noise, training=True)
        real_scores, made_scores = discriminator(real), discriminator(made)
        g_loss = criterion(tf.ones_like(made_scores), made_scores)
        d_loss = criterion(tf.ones_like(real_scores), real_scores) + criterion(
            tf.zeros_like(made_scores), made_scores
        )
    weights = generator.trainable_variables
    if not healthy:
        weights = weights + discriminator.trainable_variables
    ours.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
    weights = discriminator.trainable_variables
    theirs.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
    return g_loss, d_loss


for i in range(300):
    g, d = step()
    if i % 50 == 0:
        print(i, float(g), float(d))
