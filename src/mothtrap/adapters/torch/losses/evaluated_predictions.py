"""Values of the predictions passed to the class losses and binary losses of evaluations."""

from __future__ import annotations

import torch

from mothtrap.adapters.torch.job.readable import is_readable
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.steps import Mode
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.describe.loss_numbers import TOLERANCE
from mothtrap.tracing.source import frames

FIRST_LOOKS = 4
"""Inspected first calls per line; later calls are inspected at powers of two. Chosen by hand."""
MAX_CLASSES = 20
"""Maximum number of classes whose predictions are counted."""
MAX_ROWS = 256
"""Maximum number of inspected rows of a batch."""
MAX_LOGITS = 1 << 16
"""Maximum number of inspected predictions of a binary loss. Chosen by hand."""
OF_LOGITS = "binary_cross_entropy_with_logits"


class EvaluatedPredictions:
    """Describes the first class losses computed by each line of an evaluation.

    An evaluation has no graph that shows a softmax before its loss, so the values decide.
    """

    def __init__(self) -> None:
        self._looks: dict[str | None, int] = {}

    def look(self, inputs: LossInputs, step: int) -> LossCall | None:
        """Return the call to a class loss with hard targets, or a binary loss; None if not due.

        Args:
            inputs: arguments of the loss, including values.
            step: optimizer steps before it.
        """
        prediction, target = inputs.prediction, inputs.target
        if prediction is None or target is None or not is_readable(prediction):
            return None
        if inputs.name != OF_LOGITS and (not inputs.has_hard_targets or prediction.ndim < 2):
            return None
        location = frames.user_location()
        looks = self._looks[location] = self._looks.get(location, 0) + 1
        if looks > FIRST_LOOKS and looks & (looks - 1):
            return None
        if inputs.name == OF_LOGITS:
            return _of_logits(prediction, target, step, location)
        return LossCall(
            step=step,
            mode=Mode.EVAL,
            operation=inputs.name.removesuffix("_loss"),
            prediction_shape=tuple(prediction.shape),
            target_shape=tuple(target.shape),
            classes=int(prediction.shape[1]),
            location=location,
            reduction=inputs.reduction,
            rows_are_probabilities=are_probabilities(prediction),
            targets=_counts(prediction, target),
        )


def _of_logits(
    prediction: torch.Tensor, target: torch.Tensor, step: int, location: str | None
) -> LossCall:
    """Return the call to a binary loss that applies a sigmoid."""
    with torch.no_grad():
        values = prediction.detach().reshape(-1)[:MAX_LOGITS].float()
        least, greatest = loss_values.finite_range(values)
    return LossCall(
        step=step,
        mode=Mode.EVAL,
        operation=OF_LOGITS,
        prediction_shape=tuple(prediction.shape),
        target_shape=tuple(target.shape),
        location=location,
        predicted_least=least,
        predicted_greatest=greatest,
    )


def _counts(prediction: torch.Tensor, target: torch.Tensor) -> TargetSample | None:
    """Return the confusion matrix of a batch; None without exactly one label for each row."""
    rows = min(len(prediction), MAX_ROWS)
    if prediction.ndim != 2 or target.ndim != 1 or not 2 <= prediction.shape[1] <= MAX_CLASSES:
        return None
    labels = target[:rows].detach().to("cpu")
    confusion = loss_values.confusion(prediction.detach()[:rows], labels)
    return TargetSample(dtype=type_name(target.dtype), count=rows, confusion=confusion)


def are_probabilities(prediction: torch.Tensor) -> bool:
    """Return whether rows are in [0, 1], sum to 1 and differ.

    Args:
        prediction: shape (rows, classes, ...), of a floating-point type.
    """
    with torch.no_grad():
        by_class = prediction.detach()[:MAX_ROWS].movedim(1, -1)
        rows = by_class.reshape(-1, by_class.shape[-1])[:MAX_ROWS].float()
        if len(rows) < 2 or rows.shape[1] < 2:
            return False
        within = (rows >= 0).all() & (rows <= 1 + TOLERANCE).all()
        summed = ((rows.sum(1) - 1).abs() <= TOLERANCE).all()
        return bool(within & summed & (rows != rows[0]).any())
