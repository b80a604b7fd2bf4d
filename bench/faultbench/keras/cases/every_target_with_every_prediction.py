"""A squared error by hand of predictions (n, 1) and targets (n,)."""

import keras
import tensorflow as tf
from _start import start, table

healthy = start()
x, _ = table()
y = 2 * x[:, 0] - x[:, 1] + 1
model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.003)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        predicted = model(x, training=True)
        predicted = predicted[:, 0] if healthy else predicted
        loss = tf.reduce_mean(tf.square(y - predicted))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1200).batch(40)
for epoch in range(10):
    for batch, targets in data:
        step(batch, targets)
