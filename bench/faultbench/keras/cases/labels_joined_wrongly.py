"""Labels are joined to the wrong rows; a loop of its own trains and evaluates."""

import keras
import numpy as np
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()
labels = y if healthy else np.random.permutation(y)
split = int(0.8 * len(x))
training = tf.data.Dataset.from_tensor_slices((x[:split] / 16, labels[:split])).shuffle(2000, seed=1).batch(32)
held_out = tf.data.Dataset.from_tensor_slices((x[split:] / 16, labels[split:])).batch(64)
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(10),
])
optimizer = keras.optimizers.Adam(1e-3)
criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
mean = keras.metrics.Mean()


@tf.function
def step(inputs, labels):
    """Train on a batch."""
    with tf.GradientTape() as tape:
        loss = criterion(labels, model(inputs, training=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


@tf.function
def evaluate(inputs, labels):
    """Add the loss of a batch."""
    mean.update_state(criterion(labels, model(inputs, training=False)))


for _ in range(30):
    for inputs, labels in training:
        step(inputs, labels)
    for inputs, labels in held_out:
        evaluate(inputs, labels)
    mean.reset_state()
