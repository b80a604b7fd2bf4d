"""The loss of a compiled Keras model, in the form that checks use."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from mothtrap.checks.step import Array, LossSeen

NAMES = {
    "mean_squared_error": "mse_loss",
    "mean_absolute_error": "l1_loss",
    "huber_loss": "huber_loss",
    "huber": "huber_loss",
}
"""Losses of Keras, and the names that checks use."""
LEAST = 1e-7
"""Smallest probability whose logarithm is computed, as in Keras."""


def loss_seen(
    model: Any, y: Any, prediction: Array, value: float, location: str | None
) -> LossSeen | None:
    """Return the loss of a batch; None for an unknown loss, or for several outputs.

    Args:
        model: a compiled model.
        y: targets of the batch.
        prediction: output of the model.
        value: the loss, with all its terms.
        location: `file:line` of the call to `fit`.
    """
    loss = _function(model)
    if loss is None or not isinstance(y, np.ndarray):
        return None
    name = getattr(loss, "name", "") or getattr(loss, "__name__", "")
    logits = bool(getattr(loss, "_fn_kwargs", {}).get("from_logits", False))
    smoothing = float(getattr(loss, "_fn_kwargs", {}).get("label_smoothing", 0.0))
    scores = prediction if logits else np.log(np.maximum(prediction, LEAST))
    target = y
    if name in ("sparse_categorical_crossentropy", "categorical_crossentropy"):
        operation = "cross_entropy"
        if name == "categorical_crossentropy":
            hard = bool(np.isin(y, (0, 1)).all())
            target = y.argmax(-1) if hard else np.moveaxis(y, -1, 1)
        elif y.ndim == prediction.ndim and y.shape[-1] == 1:
            target = y[..., 0]
        if target.dtype.kind == "f" and target.ndim < prediction.ndim:
            target = target.astype(np.int64)
        prediction = np.moveaxis(scores, -1, 1)
    elif name == "binary_crossentropy":
        operation = "binary_cross_entropy" + ("_with_logits" if logits else "")
        target = y.reshape(prediction.shape) if y.size == prediction.size else y
    elif name in NAMES:
        operation = NAMES[name]
        target = y.reshape(prediction.shape) if y.size == prediction.size else y
    else:
        return None
    return LossSeen(
        operation=operation,
        value=value,
        prediction=prediction,
        target=target,
        options={"label_smoothing": smoothing} if smoothing else {},
        location=location,
        alone=not model.losses and math.isfinite(value),
    )


def share_right(loss: LossSeen) -> float:
    """Return the share of correctly predicted labels; NaN for a loss without class labels."""
    if loss.has_classes and loss.prediction.ndim > 1:
        return float((loss.prediction.argmax(1) == loss.target).mean())
    if loss.operation.startswith("binary_cross_entropy"):
        least = 0.0 if loss.operation.endswith("logits") else 0.5
        return float(((loss.prediction > least) == (loss.target > 0.5)).mean())
    return math.nan


def _function(model: Any) -> Any:
    """Return the loss of a model with one output; None if it has no loss, or several."""
    given = getattr(model, "loss", None)
    if isinstance(given, list | tuple | dict):
        values = list(given.values()) if isinstance(given, dict) else list(given)
        given = values[0] if len(values) == 1 else None
    if isinstance(given, str):
        given = keras.losses.get(given)
    return given
