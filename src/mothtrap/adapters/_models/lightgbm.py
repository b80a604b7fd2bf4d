"""Boosters of LightGBM; its estimators are wrapped like scikit-learn estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "lightgbm"
SUFFIXES = (".txt",)
OF_CLASSES = ("binary", "multiclass", "multiclassova", "cross_entropy")


def accepts(model: Any) -> bool:
    """Return whether a model is a LightGBM booster."""
    import lightgbm

    return isinstance(model, lightgbm.Booster)


def wrap(model: Any) -> WrappedModel:
    """Wrap a booster as a function."""
    objective = str(model.dump_model(num_iteration=1).get("objective", "")).split(" ")[0]
    task = "classification" if objective in OF_CLASSES else "regression"
    return WrappedModel(predict=model.predict, task=task)


def load(path: Path) -> Any:
    """Load a model that LightGBM saved as text, which runs no code."""
    import lightgbm

    return lightgbm.Booster(model_file=str(path))
