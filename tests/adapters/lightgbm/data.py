"""A small table, and parameters for which the same rows give the same model."""

from __future__ import annotations

import numpy as np

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(400, 5))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
X[7, 3] = np.nan
PARAMS = {
    "objective": "binary",
    "num_leaves": 7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "num_threads": 1,
    "verbose": -1,
    "seed": 1,
}
