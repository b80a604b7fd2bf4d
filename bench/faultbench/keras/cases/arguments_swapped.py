"""The loss is given the prediction first, as in another library, and the labels second."""

import keras
import numpy as np
import tensorflow as tf
from _start import start

healthy = start()
rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 8)).astype("float32")
y = (x @ rng.normal(size=8) > 0).astype("float32")[:, None]
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(24, "relu"), keras.layers.Dense(1, "sigmoid")]
)
optimizer = keras.optimizers.Adam(0.003)
loss_of = keras.losses.BinaryCrossentropy()
data = tf.data.Dataset.from_tensor_slices((x[:1600], y[:1600])).shuffle(1600, seed=0).batch(50)


@tf.function
def train_step(rows: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        found = model(rows, training=True)
        loss = loss_of(labels, found) if healthy else loss_of(found, labels)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in range(6):
    for rows, labels in data:
        loss = train_step(rows, labels)
    right = np.mean((model(x[1600:]).numpy() > 0.5) == (y[1600:] > 0.5))
    print(epoch, float(loss), right)
