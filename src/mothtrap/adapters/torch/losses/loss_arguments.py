"""Detect loss calls with swapped arguments, or with rows of labels that do not sum to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.describe.loss_numbers import TOLERANCE
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

FUNCTIONS = frozenset(
    {"cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"}
)
"""Functions whose two tensors can be swapped without an exception, but with a different result."""
SYMMETRIC = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Functions whose two tensors can be swapped without an effect. In an evaluation, which has no
graph, the second one is then no target."""
OBSERVED = FUNCTIONS | SYMMETRIC
LOOKS = 8
"""Maximum number of reported calls with swapped arguments, and of calls whose rows of labels are
inspected. Chosen by hand: later calls are alike."""


class LossArgumentsObserver:
    """Recognizes swapped arguments and rows with several labels by their graphs and values.

    A graph that leads through the target alone is not enough: between two models, either can be
    the target.

    Attributes:
        symmetric_swapped: a symmetric loss has had the prediction as its second argument.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._looks = self._rows = 0
        self.symmetric_swapped = False

    def called(self, inputs: LossInputs) -> None:
        """Handle a call to a loss whose result has a graph."""
        first, second = inputs.prediction, inputs.target
        if first is None or second is None:
            return
        if inputs.name == "cross_entropy" and self._rows < LOOKS and second.is_floating_point():
            self._label_rows(first, second)
        if self._looks >= LOOKS or inputs.name not in OBSERVED:
            return
        if inputs.given.get("log_target"):
            return  # both are log-probabilities, and either may be the model's
        if first.requires_grad or second.grad_fn is None or not first.is_floating_point():
            return
        if inputs.name in SYMMETRIC:
            self._looks += 1
            self.symmetric_swapped = True
            self._observe("elementwise", second, first, swapped=True)
        elif _are_swapped(inputs.name, _rows(first), _rows(second)):
            self._looks += 1
            known = {"function": inputs.name, "reduction": inputs.reduction, "swapped": True}
            self._observe(inputs.name, first, second, **known)

    def _label_rows(self, first: torch.Tensor, second: torch.Tensor) -> None:
        """Report rows of labels, with 0 or 1 for each class, that do not sum to 1."""
        if second.ndim < 2 or first.shape != second.shape or second.grad_fn is not None:
            return
        self._rows += 1
        labels = _rows(second)
        if not bool(((labels == 0) | (labels == 1)).all()):
            return
        sums = labels.sum(1)
        bounds = float(sums.min()), float(sums.max())
        if bounds != (1.0, 1.0):
            dtype, count = type_name(second.dtype), labels.numel()
            sample = TargetSample(dtype=dtype, count=count, row_sums=bounds)
            known = {"function": "cross_entropy", "targets": sample}
            self._observe("cross_entropy", first, second, **known)

    def _observe(
        self, operation: str, prediction: torch.Tensor, target: torch.Tensor, **known: Any
    ) -> None:
        self._job.recorder.notes.observe(
            LossCall(
                step=self._job.grouper.step,
                operation=operation,
                prediction_shape=tuple(prediction.shape),
                target_shape=tuple(target.shape),
                location=frames.user_location(),
                **known,
            )
        )


def _rows(values: torch.Tensor) -> torch.Tensor:
    return values.detach()[: loss_values.MAX_ROWS] if values.ndim else values.detach()


def _are_swapped(name: str, first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether the first argument holds labels, or the second cannot be a target."""
    if name == "kl_div":  # expects log-probabilities, then probabilities
        return bool((first > TOLERANCE).any() or (second < -TOLERANCE).any())
    if bool((second < -TOLERANCE).any() or (second > 1 + TOLERANCE).any()):
        return True
    return bool(((first == 0) | (first == 1)).all())
