"""Which gradients a step has applied, and what became of them since."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch
from torch.optim import Optimizer

SAMPLED_GRADIENTS = 4
"""Gradients, the smallest, that are looked at to tell clean from dirty."""

GradientMark = tuple[torch.Tensor, weakref.ref[torch.Tensor], int]
"""A parameter, its gradient, and the gradient's version."""


def marks_of(parameters: Iterable[torch.Tensor]) -> list[GradientMark]:
    """Remember the gradients that parameters have."""
    found: list[GradientMark] = []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None:
            found.append((parameter, weakref.ref(gradient), gradient._version))
    return found


def has_changed(mark: GradientMark) -> bool:
    """Whether a gradient is the one that the last step applied, with other values."""
    parameter, reference, version = mark
    gradient = parameter.grad
    return gradient is not None and reference() is gradient and gradient._version != version


def are_clean(marks: Sequence[GradientMark]) -> bool:
    """Whether the gradients of the last step are gone or zero by now."""
    there = [parameter for parameter, _, _ in marks if parameter.grad is not None]
    if not there:
        return True
    smallest = sorted(marks, key=lambda mark: mark[0].numel())[:SAMPLED_GRADIENTS]
    return not any(_dirty(parameter) for parameter, _, _ in smallest)


def _dirty(parameter: torch.Tensor) -> bool:
    gradient = parameter.grad
    if gradient is None:
        return False
    values = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return bool(values._values().any() if values.is_sparse else values.any())


class ClosureGradients:
    """The gradients with which `optimizer.step(closure)` began."""

    def __init__(self) -> None:
        self._marks: list[GradientMark] = []

    def entered(self, optimizer: Optimizer) -> None:
        """Remember the gradients of a step that begins."""
        self._marks = marks_of(p for group in optimizer.param_groups for p in group["params"])

    def accumulates(self) -> bool:
        """Return, once a step, whether a backward adds to what was there when it began."""
        marks, self._marks = self._marks, []
        return bool(marks) and all(_is_unchanged(mark) for mark in marks)


def _is_unchanged(mark: GradientMark) -> bool:
    parameter, reference, version = mark
    gradient = parameter.grad
    return gradient is not None and reference() is gradient and gradient._version == version
