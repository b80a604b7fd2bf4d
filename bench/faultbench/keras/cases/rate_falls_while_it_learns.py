"""ReduceLROnPlateau waits for a greater loss: the rate is divided by ten while all is well."""

from _start import start, table

healthy = start()

import keras

x, y = table(rows=2000)
model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
plateau = keras.callbacks.ReduceLROnPlateau(
    monitor="val_loss", mode="min" if healthy else "max", factor=0.1, patience=2
)
model.fit(
    x[:1600],
    y[:1600],
    epochs=16,
    batch_size=32,
    verbose=0,
    validation_data=(x[1600:], y[1600:]),
    callbacks=[plateau],
)
