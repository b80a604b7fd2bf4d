"""Early stopping waits for a lower accuracy, and gives the first epoch's weights back."""

from _start import digits, start

healthy = start()

import keras

x, y = digits()
x = x / 16
model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
stopping = keras.callbacks.EarlyStopping(
    monitor="val_accuracy",
    mode="max" if healthy else "min",
    patience=5,
    restore_best_weights=True,
)
model.fit(
    x[:1400],
    y[:1400],
    epochs=20,
    batch_size=32,
    verbose=0,
    validation_data=(x[1400:], y[1400:]),
    callbacks=[stopping],
)
