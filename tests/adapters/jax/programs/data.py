"""Small data that the programs train on."""

import numpy as np


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
