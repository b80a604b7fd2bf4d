"""What every case begins with: arguments, and small data that the programs train on."""

import argparse

import numpy as np


def start():
    """Return whether the repaired twin is wanted, and the seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--healthy", action="store_true")
    given = parser.parse_args()
    return given.healthy, given.seed


def classes(rows=512, features=8, count=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    centers = rng.normal(size=(features, count))
    return x, (x @ centers).argmax(axis=1).astype(np.int32)


def batches(x, y, size=64, steps=300, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        chosen = rng.integers(0, len(x), size)
        yield x[chosen], y[chosen]
