"""Facts about losses of which only the shapes are known: differences, and log-softmaxes."""

from __future__ import annotations

from typing import Any

from mothtrap.core.facts.losses import LossCall


def difference(
    prediction: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...], **about: Any
) -> LossCall:
    """Return the fact for a difference of which the shapes are known, and may not fit.

    Args:
        prediction: shape of the prediction.
        target: shape of the target.
        result: shape of the difference.
        about: other fields.
    """
    return LossCall(
        operation="elementwise",
        prediction_shape=prediction,
        target_shape=target,
        result_shape=result,
        **about,
    )


def log_softmax(prediction: tuple[int, ...], axis: int, **about: Any) -> LossCall:
    """Return the fact for a cross-entropy that a script writes with a log-softmax.

    Args:
        prediction: shape of the logits; the classes are on the last axis.
        axis: axis of the log-softmax.
        about: other fields.
    """
    return LossCall(
        operation="cross_entropy",
        prediction_shape=prediction,
        classes=prediction[-1],
        softmax_sizes=(prediction[axis],),
        **about,
    )
