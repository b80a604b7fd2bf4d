"""Boosters of XGBoost; its estimators are wrapped like scikit-learn estimators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "xgboost"
SUFFIXES = (".ubj", ".json")


def accepts(model: Any) -> bool:
    """Return whether a model is a booster."""
    import xgboost

    return isinstance(model, xgboost.Booster)


def wrap(model: Any) -> WrappedModel:
    """Wrap a booster as a function."""
    import xgboost

    config = json.loads(model.save_config())
    objective = config["learner"]["objective"]["name"]
    named = model.feature_names is not None

    def predict(rows: Any) -> Any:
        data = rows if named or not hasattr(rows, "columns") else np.asarray(rows)
        names = None if hasattr(data, "columns") else model.feature_names
        matrix = xgboost.DMatrix(data, feature_names=names, enable_categorical=True)
        if model.feature_types is not None and not hasattr(data, "columns"):
            matrix.feature_types = model.feature_types
        return model.predict(matrix)

    of_classes = objective.startswith(("binary:", "multi:"))
    return WrappedModel(predict=predict, task="classification" if of_classes else "regression")


def load(path: Path) -> Any:
    """Load a model that XGBoost saved as JSON or UBJ, which run no code."""
    import xgboost

    return xgboost.Booster(model_file=str(path))
