"""Classifies handwritten digits with a small convolutional network in Keras.

The data are scikit-learn's 1,797 scans of 8 x 8 pixels, which are part of its package. By default,
the model ends in a softmax, although the loss applies a softmax itself. It trains, but slowly and
badly. `--fixed` removes the softmax from the model.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from sklearn.datasets import load_digits


def main() -> None:
    """Parse the command line, and train."""
    parser = argparse.ArgumentParser(description="Read handwritten digits.")
    parser.add_argument("--fixed", action="store_true", help="leave out the softmax")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    scans = load_digits()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation=None if arguments.fixed else "softmax"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(
        scans.images[..., None] / 16.0,
        scans.target,
        batch_size=64,
        epochs=arguments.epochs,
        validation_split=0.2,
        verbose=2,
    )


if __name__ == "__main__":
    main()
