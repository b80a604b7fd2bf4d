"""A Python number is an argument of a `tf.function`: each new value is traced anew."""

import keras
import numpy as np
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()
model = keras.Sequential([
    keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10),
])
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(images, labels, number):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss, number + 1


for number in range(80):
    rows = np.random.randint(0, len(x), 32)
    given = tf.constant(number) if healthy else number
    step(tf.constant(x[rows] / 16), tf.constant(y[rows]), given)
