"""Predictions that a script makes with a boosted estimator, until it compares them with labels."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mothtrap.core.facts.estimators import PredictionsCompared
from mothtrap.tracing.describe import predictions

METRICS: Final = "sklearn.utils._param_validation"
"""Module whose function checks the arguments of every metric."""
CHECKS: Final = "validate_parameter_constraints"
KEPT: Final = 16
"""Number of the latest predictions that are remembered."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Predicted:
    """Predictions of an estimator.

    Attributes:
        values: the predictions, as long as the script keeps them.
        estimator: class of the estimator.
        fit: label of the latest training run.
        classes: the predictions are classes.
        trained: the predictions are for the training rows.
        location: line that predicts.
    """

    values: weakref.ref[Any]
    estimator: str
    fit: str
    classes: bool
    trained: bool
    location: str


_LATEST: list[Predicted] = []


def remember(values: object, **about: Any) -> None:
    """Remember predictions, without keeping them alive."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        _LATEST.append(Predicted(values=weakref.ref(values), **about))
        del _LATEST[:-KEPT]


def source_of(values: object) -> Predicted | None:
    """Return the record of remembered predictions; None for other values."""
    return next((one for one in reversed(_LATEST) if one.values() is values), None)


def compared(label: Any, values: Any, *, step: int) -> PredictionsCompared | None:
    """Compare remembered predictions with labels, and forget them; None for other values."""
    source = source_of(values)
    label_R = np.asarray(label)
    if source is None or label_R.ndim != 1:
        return None
    _LATEST.remove(source)
    return predictions.compared(
        label_R,
        np.asarray(values),
        np.unique(label_R).tolist() if source.classes else None,
        step=step,
        fit=source.fit,
        estimator=source.estimator,
        site=f"predict at {source.location.rpartition('/')[2]}",
        trained=source.trained,
        location=source.location or None,
    )
