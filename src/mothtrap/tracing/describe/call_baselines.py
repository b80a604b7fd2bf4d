"""Lowest loss of a constant prediction in an evaluation, computed from its loss calls."""

from __future__ import annotations

import math

from mothtrap.tracing.describe.constant_baseline import ConstantBaseline
from mothtrap.tracing.describe.loss_numbers import MAX_TARGETS, Called


def add_targets(baseline: ConstantBaseline, called: Called) -> None:
    """Add the targets of a call to the baseline of its evaluation."""
    is_smooth_binary = called.is_binary and called.smoothing > 0
    if called.is_weighted or is_smooth_binary:
        baseline.set_unknown()
    if called.classes and not called.is_binary and called.target.dtype.kind in "iu":
        labels = called.target.reshape(-1)[:MAX_TARGETS]
        baseline.add_labels(labels, called.classes, smoothing=called.smoothing)
    elif called.is_binary or called.squared is not None:
        rows = MAX_TARGETS // max(1, math.prod(called.target.shape[1:]))
        factor = 1.0 if called.squared is None else called.squared
        target = called.target[: max(1, rows)] if called.target.ndim else called.target
        baseline.add_numbers(target, is_binary=called.is_binary, factor=factor)
    else:
        baseline.set_unknown()


def baseline_of(called: Called) -> ConstantBaseline:
    """Return the baseline of an evaluation with one call."""
    baseline = ConstantBaseline()
    add_targets(baseline, called)
    return baseline
