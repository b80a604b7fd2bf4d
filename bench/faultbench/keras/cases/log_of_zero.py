"""A loss of one's own takes the logarithm of probabilities that become 0."""

import keras
from _start import start, table

healthy = start()
x, y = table()


def cross_entropy(target, predicted):
    if healthy:
        predicted = keras.ops.clip(predicted, 1e-7, 1 - 1e-7)
    target = keras.ops.cast(target, "float32")
    hit = target * keras.ops.log(predicted) + (1 - target) * keras.ops.log(1 - predicted)
    return -keras.ops.mean(hit, axis=-1)


model = keras.Sequential([
    keras.Input((10,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(0.01), cross_entropy)
model.fit(x, y.reshape(-1, 1), epochs=60, batch_size=32, verbose=0)
