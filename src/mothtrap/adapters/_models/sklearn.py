"""Estimators with the interface of scikit-learn, including XGBoost, LightGBM and CatBoost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mothtrap.core.errors import ConfigError, MissingExtraError
from mothtrap.core.wrapped_models import Predict, WrappedModel

FRAMEWORK = "sklearn"
SUFFIXES = (".skops",)


def accepts(model: Any) -> bool:
    """Return whether a model is a fitted estimator."""
    return hasattr(model, "predict") and hasattr(model, "get_params")


def wrap(model: Any) -> WrappedModel:
    """Wrap an estimator as a function that returns probabilities if available."""
    has_probabilities = hasattr(model, "predict_proba")
    classes = getattr(model, "classes_", None) if has_probabilities else None
    return WrappedModel(
        predict=model.predict_proba if has_probabilities else model.predict,
        classes=() if classes is None else tuple(getattr(classes, "tolist", lambda: classes)()),
        task=_task(model),
        refit=lambda X, y: _refitted(model, X, y),
    )


def load(path: Path, *, trusted: bool = False) -> Any:
    """Load a skops file.

    Args:
        path: the file.
        trusted: types that skops does not consider safe may be loaded. Otherwise no code runs.

    Raises:
        ConfigError: the file contains types that skops does not consider safe.
        MissingExtraError: skops is not installed.
    """
    try:
        import skops.io
    except ImportError as err:
        raise MissingExtraError("a skops file", "skops", "probe") from err
    unknown = skops.io.get_untrusted_types(file=path)
    if unknown and not trusted:
        raise ConfigError(
            f"{path} contains types that skops does not trust: {', '.join(unknown)}; if you trust "
            "the file, pass --trust-pickle, or pass a function: package.module:predict"
        )
    return skops.io.load(path, trusted=unknown)


def _task(model: Any) -> str | None:
    if hasattr(model, "classes_") or hasattr(model, "predict_proba"):
        return "classification"
    kind = getattr(model, "_estimator_type", None)
    if kind is None and hasattr(model, "__sklearn_tags__"):
        kind = model.__sklearn_tags__().estimator_type
    return {"classifier": "classification", "regressor": "regression"}.get(str(kind))


def _refitted(model: Any, X: Any, y: Any) -> Predict:
    from sklearn.base import clone

    return wrap(clone(model).fit(X, y)).predict
