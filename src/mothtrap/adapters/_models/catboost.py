"""Models of CatBoost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "catboost"
SUFFIXES = (".cbm",)


def accepts(model: Any) -> bool:
    """Return whether a model is a CatBoost model."""
    import catboost

    return isinstance(model, catboost.CatBoost)


def wrap(model: Any) -> WrappedModel:
    """Wrap a model as a function that returns probabilities if it has classes."""
    classes = tuple(getattr(model, "classes_", ()))
    if not classes:
        return WrappedModel(predict=lambda rows: model.predict(rows), task="regression")
    return WrappedModel(
        predict=lambda rows: model.predict(rows, prediction_type="Probability"),
        classes=classes,
        task="classification",
    )


def load(path: Path) -> Any:
    """Load a model in CatBoost's own format, which runs no code."""
    import catboost

    return catboost.CatBoost().load_model(str(path))
