"""A loop of its own evaluates with `training=True`: dropout and batch norm go on."""

import keras
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()
training = tf.data.Dataset.from_tensor_slices((x[:1400] / 16, y[:1400])).shuffle(2000, seed=1).batch(32)
held_out = tf.data.Dataset.from_tensor_slices((x[1400:] / 16, y[1400:])).batch(64)
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(128),
    keras.layers.BatchNormalization(),
    keras.layers.ReLU(),
    keras.layers.Dropout(0.5),
    keras.layers.Dense(10),
])
optimizer = keras.optimizers.Adam(1e-3)
criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def step(inputs, labels):
    """Train on a batch."""
    with tf.GradientTape() as tape:
        loss = criterion(labels, model(inputs, training=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


@tf.function
def evaluate(inputs, labels):
    """Count what is right."""
    accuracy.update_state(labels, model(inputs, training=not healthy))


for _ in range(10):
    for inputs, labels in training:
        step(inputs, labels)
    for inputs, labels in held_out:
        evaluate(inputs, labels)
    accuracy.reset_state()
