"""A custom loop calls the model without `training=True`: dropout and batch norm sleep."""

import keras
import numpy as np
import tensorflow as tf
from _start import digits, start

healthy = start()
x, y = digits()
x = x / 16
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.5),
    keras.layers.Dense(10),
])
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True) if healthy else model(images))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(8):
    order = np.random.permutation(1440)
    for begin in range(0, 1440, 32):
        rows = order[begin : begin + 32]
        step(tf.constant(x[rows]), tf.constant(y[rows]))
