"""Losses of Keras as facts: operation, logits, targets, predictions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import internals
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.tracing.describe import loss_numbers
from mothtrap.tracing.describe.loss_numbers import Array, Called

_CLASSES: Final = (
    *("sparse_categorical_crossentropy", "categorical_crossentropy"),
    "categorical_focal_crossentropy",
)
_BINARY: Final = ("binary_crossentropy", "binary_focal_crossentropy")
_ACTIVATIONS: Final = (("softmax",), ("sigmoid",))
_ELEMENTWISE: Final = (
    *("mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error"),
    *("mean_squared_logarithmic_error", "huber", "log_cosh", "poisson"),
)


def name_of(loss: Any) -> str:
    """Return Keras's name of a loss function; for a user-defined loss, its class."""
    function = internals.losses_of(loss)
    return str(getattr(function, "__name__", "") or type(loss).__name__)


def smoothing_of(loss: Any) -> float:
    """Return the share of the targets that label smoothing spreads over all classes."""
    return float(_settings(loss).get("label_smoothing", 0.0) or 0.0)


def taken_back(loss: Any, chain: tuple[str, ...], prediction: Any) -> str:
    """Return the softmax or sigmoid that a loss of logits undoes.

    Keras does so, with a warning, if there is no operation in between, not even a cast.
    """
    if not _is_told_logits(loss) or "focal" in name_of(loss) or chain[:1] not in _ACTIVATIONS:
        return ""
    is_cast = prediction.dtype.name != loss.dtype
    return "" if is_cast or not internals.has_logits(prediction) else chain[0]


def operation_of(call: LossRecord) -> str:
    """Return the operation in the terms of `LossCall`; '' for an unknown loss."""
    name = name_of(call.loss)
    if name in _CLASSES:
        return "cross_entropy"
    if name in _BINARY:
        return "binary_cross_entropy_with_logits" if _takes_logits(call) else "binary_cross_entropy"
    return "elementwise" if name in _ELEMENTWISE else ""


def _takes_logits(call: LossRecord) -> bool:
    return _is_told_logits(call.loss) and not call.taken_back


def _is_told_logits(loss: Any) -> bool:
    return bool(_settings(loss).get("from_logits", False))


def _settings(loss: Any) -> dict[str, Any]:
    """Return the keyword arguments with which a loss object calls its function."""
    # Private to Keras (3.0 to 3.15): a loss object has no public access to them.
    settings: dict[str, Any] = getattr(loss, "_fn_kwargs", {})
    return settings


def called(
    call: LossRecord, target: Array, prediction: Array, counted: Array | None = None
) -> Called | None:
    """Return a loss call in framework-independent terms; None for an unknown loss.

    A class loss that receives probabilities applies the logarithm itself, so it counts as one
    `cross_entropy` together with the softmax before it.
    """
    operation, chain = operation_of(call), call.chain
    if not operation or not prediction.ndim:
        return None
    probability, classes = prediction.astype(np.float64), None
    if operation == "cross_entropy":
        classes = prediction.shape[-1]
        if _takes_logits(call):
            probability = loss_numbers.softmax(probability)
        elif "softmax" in chain[:2]:
            chain = tuple(name for name in chain if name != "softmax")
        if name_of(call.loss).startswith("categorical"):
            hard = target.ndim > 1 and np.isin(target, (0, 1)).all()
            if hard and (target.sum(axis=-1) == 1).all():
                target = target.argmax(axis=-1)
        elif target.size * classes == prediction.size:
            target = target.reshape(prediction.shape[:-1])
            integral = np.isfinite(target).all() and (target == np.round(target)).all()
            target = target.astype(np.int64) if integral else target
    elif operation.startswith("binary"):
        classes = 2
        if _takes_logits(call):
            probability = 1 / (1 + np.exp(-np.clip(probability, -60, 60)))
        if target.size == prediction.size:
            target = target.reshape(prediction.shape)
    ignored = _settings(call.loss).get("ignore_class")
    if counted is None and ignored is not None:
        counted = target != ignored
    return Called(
        operation=operation,
        chain=chain,
        classes=classes,
        target=target,
        prediction=probability,
        smoothing=smoothing_of(call.loss),
        squared=1.0 if name_of(call.loss) == "mean_squared_error" else None,
        is_weighted="focal" in name_of(call.loss),
        counted=counted,
    )


def about(call: LossRecord, one: Called, prediction: Array) -> dict[str, Any]:
    """Return the fields of the fact that only Keras has; `one` is the loss call."""
    softmax = softmax_size(call, prediction)
    return {
        "target_shape": one.target.shape,
        "result_shape": _stretched(one, prediction),
        "location": call.location,
        "reduction": _reduction(call.loss),
        "softmax_sizes": (softmax,) if softmax is not None else (),
        "predicts_probabilities": not _takes_logits(call) and one.operation != "elementwise",
        "function": name_of(call.loss),
        "swapped": call.swapped,
        "taken_back": call.taken_back,
    }


def _stretched(one: Called, prediction: Array) -> tuple[int, ...] | None:
    """Return the shape of an elementwise result if one output is broadcast to several targets."""
    if one.operation != "elementwise" or one.target.ndim != prediction.ndim:
        return None
    same = one.target.shape[:-1] == prediction.shape[:-1]
    return one.target.shape if same and prediction.shape[-1] == 1 < one.target.shape[-1] else None


def softmax_size(call: LossRecord, prediction: Array) -> int | None:
    """Return the size of the axis of the softmax before a loss; None without a softmax.

    A softmax over the batch is recognized by its results: the numbers of each column sum to 1, but
    the numbers of each row do not.
    """
    is_layer = "softmax" in call.chain[:1]
    along = int(prediction.shape[-1]) if is_layer else None
    if operation_of(call) != "cross_entropy" or _takes_logits(call) or prediction.ndim != 2:
        return along
    values = prediction.astype(np.float64)
    rows, columns = (np.abs(values.sum(axis=axis) - 1).max() for axis in (1, 0))
    is_over_batch = len(values) > 1 and columns < 1e-3 < rows and bool((values >= 0).all())
    return len(values) if is_over_batch else along


def _reduction(loss: Any) -> str:
    told = str(getattr(loss, "reduction", "") or "none")
    return "mean" if "mean" in told or told == "sum_over_batch_size" else told
