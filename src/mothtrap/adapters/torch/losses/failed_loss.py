"""Inputs of a loss whose exception ended the script."""

from __future__ import annotations

from types import FrameType, TracebackType

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.losses import FailedLoss
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.source import frames

_FUNCTIONS = {
    "cross_entropy": "cross_entropy",
    "nll_loss": "nll",
    "binary_cross_entropy": "binary_cross_entropy",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
}
_SOURCE: str = nn.functional.__file__
MAX_TEXT = 200


def failed_loss(error: BaseException, step: int) -> FailedLoss | None:
    """Find the loss call that raised an exception.

    Args:
        error: an uncaught exception; its frames still contain the arguments of the loss.
        step: the step in which it was raised.

    Returns:
        The loss call; None if the exception has another origin.
    """
    if not isinstance(error, Exception):
        return None
    found, caller = _loss_frame(error.__traceback__)
    if found is None:
        return None
    given, target = found.f_locals.get("input"), found.f_locals.get("target")
    name = _FUNCTIONS[found.f_code.co_name]
    predicted = _range(given)
    labels = _range(target)
    return FailedLoss(
        step=step,
        operation=name,
        error=f"{type(error).__name__}: {error}"[:MAX_TEXT],
        classes=_classes(given) if name in ("cross_entropy", "nll") else None,
        target_dtype=type_name(target.dtype) if isinstance(target, torch.Tensor) else None,
        least=labels[0] if labels else None,
        greatest=labels[1] if labels else None,
        predicted_least=predicted[0] if predicted else None,
        predicted_greatest=predicted[1] if predicted else None,
        location=frames.line_of(*caller) if caller else None,
    )


def told(found: FailedLoss) -> str:
    """Describe the failure, for a job that ended without a step."""
    text = f"{found.operation} failed ({found.error})"
    if found.least is not None:
        text += f"; its targets range from {found.least:g} to {found.greatest:g}"
    if found.classes is not None:
        text += f", its classes from 0 to {found.classes - 1}"
    if found.predicted_least is not None and found.operation == "binary_cross_entropy":
        text += f", its predictions from {found.predicted_least:g} to {found.predicted_greatest:g}"
    return text


def _loss_frame(
    traceback: TracebackType | None,
) -> tuple[FrameType | None, tuple[str, int] | None]:
    """Return the outermost frame of a loss function, and the line of user code that called it."""
    caller: tuple[str, int] | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == _SOURCE and code.co_name in _FUNCTIONS:
            return traceback.tb_frame, caller
        if frames.is_users(traceback.tb_frame):
            caller = code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return None, None


def _classes(given: object) -> int | None:
    if not isinstance(given, torch.Tensor) or not given.ndim:
        return None
    return int(given.shape[1] if given.ndim > 1 else given.shape[0])


def _range(tensor: object) -> tuple[float, float] | None:
    """Return the smallest and largest value in host memory; a failed device cannot be read."""
    if not isinstance(tensor, torch.Tensor) or not is_plain(tensor) or not tensor.numel():
        return None
    if tensor.device.type != "cpu":
        return None
    values = tensor.detach().double()
    return float(values.min()), float(values.max())
