"""Facts about differences between predictions and targets whose values are not inspected."""

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
