"""Targets of PyTorch's loss functions, used for the loss of the best constant prediction."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from mothtrap.adapters.torch.losses.loss_calls import LossInputs
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.describe.constant_baseline import ConstantBaseline

BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


def add_targets(baseline: ConstantBaseline, inputs: LossInputs) -> None:
    """Add the targets of a loss call to the baseline of its evaluation."""
    target, prediction = inputs.target, inputs.prediction
    if any(inputs.given.get(name) is not None for name in ("weight", "pos_weight")):
        baseline.set_unknown()
    if inputs.has_hard_targets and target is not None and prediction is not None:
        ignored = inputs.given.get("ignore_index", -100)
        labels = target.detach().reshape(-1)
        baseline.add_labels(
            _on_host(labels[labels != ignored], torch.int64),
            prediction.shape[1 if prediction.ndim > 1 else 0],
            smoothing=float(inputs.given.get("label_smoothing") or 0.0),
        )
    elif inputs.name in ("mse_loss", *BINARY) and target is not None:
        numbers = _on_host(target.detach(), torch.float64)
        baseline.add_numbers(numbers, is_binary=inputs.name in BINARY)
    elif inputs.name not in ("mse_loss", *BINARY):
        baseline.set_unknown()


def _on_host(values: torch.Tensor, dtype: torch.dtype) -> npt.NDArray[Any]:
    """Return values on the host, in a type that NumPy supports."""
    return as_array(values.to("cpu", dtype))
