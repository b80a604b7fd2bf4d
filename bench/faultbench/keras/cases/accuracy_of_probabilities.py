"""keras.metrics.Accuracy compares the labels with probabilities, and finds none that is equal."""

from _start import start, table

healthy = start()

import keras

x, y = table(rows=1500)
model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
metric = keras.metrics.BinaryAccuracy() if healthy else keras.metrics.Accuracy()
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=[metric])
model.fit(
    x[:1200], y[:1200], epochs=15, batch_size=32, verbose=0, validation_data=(x[1200:], y[1200:])
)
