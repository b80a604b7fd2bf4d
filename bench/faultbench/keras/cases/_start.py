"""What every case begins with: arguments, seeds, quiet logs, small data sets."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np


def start():
    """Return whether the repaired twin is wanted; seed everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--healthy", action="store_true")
    given = parser.parse_args()
    keras.utils.set_random_seed(given.seed)
    return given.healthy


def digits():
    """Return 1,797 images of digits, 8 x 8 values from 0 to 16, and their classes."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.permutation(len(x))
    return x[order].astype("float32"), y[order].astype("int64")


def table(rows=1200, columns=10):
    """Return a table of normal numbers, and a class (0 or 1) that a small network can learn."""
    x = np.random.normal(size=(rows, columns)).astype("float32")
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype("int64")
    return x, y
