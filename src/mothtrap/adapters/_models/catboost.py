"""Models of CatBoost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "catboost"
SUFFIXES = (".cbm",)


def accepts(model: Any) -> bool:
    """Return whether a model is one of CatBoost."""
    import catboost

    return isinstance(model, catboost.CatBoost)


def wrap(model: Any) -> WrappedModel:
    """Return a model as a function: probabilities where it has classes."""
    classes = tuple(getattr(model, "classes_", ()))
    if not classes:
        return WrappedModel(predict=lambda rows: model.predict(rows), task="regression")
    return WrappedModel(
        predict=lambda rows: model.predict(rows, prediction_type="Probability"),
        classes=classes,
        task="classification",
    )


def load(path: Path) -> Any:
    """Read a model that CatBoost saved in its own format, which runs no code."""
    import catboost

    return catboost.CatBoost().load_model(str(path))
