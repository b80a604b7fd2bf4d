"""Small tables, and parameters for which the same rows give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(400, 5)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
X[7, 3] = np.nan
TRAIN = xgboost.DMatrix(X[:300], Y[:300])
VALID = xgboost.DMatrix(X[300:], Y[300:])
EVALS = [(TRAIN, "train"), (VALID, "valid")]
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "subsample": 0.8, "nthread": 1}
