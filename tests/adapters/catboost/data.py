"""A small table, and models for which the same rows give the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(400, 5))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
X[7, 3] = np.nan


def small(**options: Any) -> Any:
    """Return a classifier of small trees that writes no files."""
    return catboost.CatBoostClassifier(**_OWN | options)


def small_regressor(**options: Any) -> Any:
    """Return a regressor of small trees that writes no files."""
    return catboost.CatBoostRegressor(**_OWN | options)


def model_bytes(model: Any) -> bytes:
    """Return the trees and leaf values of a model, without the time of its training."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        model.save_model(str(path), format="python")
        return path.read_bytes()


_OWN = {
    "depth": 3,
    "thread_count": 1,
    "allow_writing_files": False,
    "verbose": False,
    "random_seed": 1,
}
