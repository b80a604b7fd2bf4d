"""The gradients that a step has applied, and whether they have changed since."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch
from torch.optim import Optimizer

from mothtrap.tracing.jobs.identity import OwnRef

SAMPLED_GRADIENTS = 4
"""Number of gradients, the smallest ones, that are read to detect clearing."""

GradientMark = tuple[torch.Tensor, weakref.ref[torch.Tensor], int]
"""A parameter, its gradient, and the gradient's version."""


def marks_of(parameters: Iterable[torch.Tensor]) -> list[GradientMark]:
    """Record the gradients of parameters."""
    found: list[GradientMark] = []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None:
            found.append((parameter, OwnRef(gradient), gradient._version))
    return found


def has_changed(mark: GradientMark) -> bool:
    """Return whether a gradient is the same tensor that the last step applied, with new values."""
    parameter, reference, version = mark
    gradient = parameter.grad
    return gradient is not None and reference() is gradient and gradient._version != version


def are_clean(marks: Sequence[GradientMark], reached: torch.Tensor | None = None) -> bool:
    """Return whether the gradients of the last step were deleted or set to zero.

    Args:
        marks: marks of the last step.
        reached: a parameter whose gradient is ignored because it is already new.
    """
    for parameter, _, _ in marks:
        if parameter.grad is not None and parameter is not reached:
            break
    else:
        return True
    if reached is not None:
        marks = [mark for mark in marks if mark[0] is not reached]
    smallest = sorted(marks, key=lambda mark: mark[0].numel())[:SAMPLED_GRADIENTS]
    return not any(_dirty(parameter) for parameter, _, _ in smallest)


def _dirty(parameter: torch.Tensor) -> bool:
    gradient = parameter.grad
    if gradient is None:
        return False
    values = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return bool(values._values().any() if values.is_sparse else values.any())


class ClosureGradients:
    """The gradients at the start of `optimizer.step(closure)`."""

    def __init__(self) -> None:
        self._marks: list[GradientMark] = []

    def entered(self, optimizer: Optimizer) -> None:
        """Record the gradients of a step that begins."""
        self._marks = marks_of(p for group in optimizer.param_groups for p in group["params"])

    def accumulates(self) -> bool:
        """Return, once per step, whether a backward pass adds to gradients from before the step."""
        marks, self._marks = self._marks, []
        return bool(marks) and all(_is_unchanged(mark) for mark in marks)


class ClosureEvaluations:
    """Checks that evaluations of a closure within one step begin with clean gradients.

    An evaluation may have several backward passes (micro-batches), of which the first begins with
    cleared gradients. So the number of such backward passes is compared with the number of
    evaluations that the optimizer counts.
    """

    def __init__(self) -> None:
        self._counted = self._backwards = self._clean = 0
        self._marks: list[GradientMark] = []
        self._optimizer: weakref.ref[Optimizer] | None = None

    def entered(self, optimizer: Optimizer, marks: list[GradientMark]) -> None:
        """Begin a step; `marks` describe the gradients that the previous evaluation applied."""
        self._optimizer = weakref.ref(optimizer)
        self._counted, self._marks = _evaluations(optimizer), marks
        self._backwards = self._clean = 0

    def backward_began(self) -> None:
        """Check whether a backward pass of the closure begins with clean gradients."""
        self._backwards += 1
        self._clean += are_clean(self._marks)

    def backward_ended(self) -> None:
        """Record the gradients after the backward pass."""
        optimizer = self._optimizer() if self._optimizer is not None else None
        groups = optimizer.param_groups if optimizer is not None else ()
        self._marks = marks_of(p for group in groups for p in group["params"])

    def left(self, optimizer: Optimizer) -> int:
        """Return how many evaluations of the step began with earlier gradients."""
        self._marks = []
        # Optimizers other than LBFGS count nothing, and evaluate the closure once.
        evaluations = _evaluations(optimizer) - self._counted or int(self._counted == 0)
        return max(0, min(evaluations, self._backwards) - self._clean)


def _evaluations(optimizer: Optimizer) -> int:
    """Return the number of closure evaluations that an optimizer has counted, as LBFGS does."""
    states = (state for state in optimizer.state.values() if isinstance(state, dict))
    return max((int(state.get("func_evals", 0)) for state in states), default=0)


def _is_unchanged(mark: GradientMark) -> bool:
    parameter, reference, version = mark
    gradient = parameter.grad
    return gradient is not None and reference() is gradient and gradient._version == version
