"""Saves the whole model, or only its weights, after each epoch; `--resume` continues from there."""

import sys

import keras
import numpy as np

saves = sys.argv[1]
if saves != "unseeded":
    keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(256, 6)).astype("float32")
y = (x[:, 0] > 0).astype("int32")
file = "last.keras" if saves == "whole" else "last.weights.h5"
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
if "--resume" in sys.argv:
    if saves == "whole":
        model = keras.models.load_model(file)
    else:
        model.load_weights(file)
save = keras.callbacks.ModelCheckpoint(file, save_weights_only=saves != "whole")
times = 3 if saves == "unseeded" else 1
for _ in range(times):
    model.fit(x, y, epochs=40, shuffle=False, verbose=0, callbacks=[save])
