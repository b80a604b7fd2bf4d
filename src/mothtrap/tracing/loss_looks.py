"""Targets and predictions of a loss, from arrays on the host.

Shape suffixes: N = elements, R = rows, K = classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.data import TargetOrder
from mothtrap.core.facts.losses import TargetSample
from mothtrap.tracing import next_tokens
from mothtrap.tracing.describe.constant_baseline import MAX_CLASSES, ConstantBaseline
from mothtrap.tracing.describe.target_leakage import telling_columns
from mothtrap.tracing.quiet_numpy import quiet

Array = npt.NDArray[Any]

MAX_TARGETS: Final = 1 << 16
"""Most targets of a call that are inspected, from the first rows."""
MAX_CONFUSED: Final = 20
"""Classes up to which the confusion is counted."""
TOLERANCE: Final = 1e-3
"""Distance beyond a range that is rounding, e.g. of an image that was resized; chosen by hand."""
RANGES: Final = {
    "relu": (0.0, math.inf),
    "softplus": (0.0, math.inf),
    "exp": (0.0, math.inf),
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "log_sigmoid": (-math.inf, 0.0),
    "log_softmax": (-math.inf, 0.0),
    "softsign": (-1.0, 1.0),
}
"""Closure of the range of operations that a model may end in."""
BINS: Final = 64
"""Groups that classes are counted in."""
TELL_AT: Final = (8, 16, 32, 64, 128, 256, 512)
"""Steps after which the order of targets is reported."""
MOST: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One loss call, from arrays on the host.

    Attributes:
        operation: As in `LossCall`.
        chain: As in `LossCall`.
        classes: None but for a class loss.
        target: Hard labels, probabilities or numbers.
        prediction: Probabilities or numbers.
        smoothing: Share of the target that label smoothing spreads over all classes.
        squared: Factor of the squared difference; None of other losses.
        is_weighted: The loss weighs classes or rows.
    """

    operation: str
    chain: tuple[str, ...]
    classes: int | None
    target: Array
    prediction: Array
    smoothing: float = 0.0
    squared: float | None = None
    is_weighted: bool = False

    @property
    def is_binary(self) -> bool:
        """Return whether each output is a class of its own."""
        return self.operation.startswith("binary")


def label_counts(called: Called) -> tuple[int, ...] | None:
    """Return hard targets per class; None when they are soft, or numbers."""
    labels = called.target.reshape(-1)[:MAX_TARGETS]
    if called.is_binary:
        if not np.isin(labels, (0, 1)).all():
            return None
        ones = int((labels == 1).sum())
        return (len(labels) - ones, ones)
    if not called.classes or called.classes > MAX_CLASSES or labels.dtype.kind not in "iu":
        return None
    kept = labels[(labels >= 0) & (labels < called.classes)]
    return tuple(np.bincount(kept, minlength=called.classes).tolist())


@quiet
def prediction_spread(called: Called) -> float | None:
    """Return the standard deviation over rows of the probabilities, averaged over classes."""
    probability_RK = called.prediction
    if probability_RK.ndim < 2 or len(probability_RK) < 2 or not called.classes:
        return None
    rows_RK = probability_RK.reshape(-1, probability_RK.shape[-1]).astype(np.float64)
    if not np.isfinite(rows_RK).all():
        return None
    return float(rows_RK.std(axis=0).mean())


@quiet
def sample(called: Called, inputs: Sequence[Array], *, columns: bool) -> TargetSample:
    """Describe the targets of a call.

    Args:
        called: the loss call.
        inputs: of the model.
        columns: also look for columns of the input that give the target away.
    """
    target = called.target.reshape(-1)[:MAX_TARGETS]
    finite = target.astype(np.float64)
    finite = finite[np.isfinite(finite)]
    telling = _telling_columns(inputs, called) if columns else None
    return TargetSample(
        dtype=called.target.dtype.name,
        count=target.size,
        least=float(finite.min()) if finite.size else None,
        greatest=float(finite.max()) if finite.size else None,
        mean=float(finite.mean()) if finite.size else None,
        outside_share=_outside_share(called, finite),
        input_offsets=_input_offsets(called, inputs),
        telling_columns=telling[0] if telling else None,
        columns=telling[1] if telling else None,
        confusion=_confusion(called),
        row_sums=_row_sums(called),
    )


def _row_sums(called: Called) -> tuple[float, float] | None:
    if called.operation != "cross_entropy" or called.target.shape != called.prediction.shape:
        return None
    if not called.target.size or not np.isin(called.target, (0, 1)).all():
        return None
    sums_R = called.target.sum(axis=-1, dtype=np.float64)
    return (float(sums_R.min()), float(sums_R.max())) if np.isfinite(sums_R).all() else None


def _input_offsets(called: Called, inputs: Sequence[Array]) -> tuple[int, ...] | None:
    """Offsets at which labels are the tokens given, in the rows that were kept of both."""
    if called.operation != "cross_entropy" or called.target.dtype.kind not in "iu":
        return None
    rows = len(called.target) if called.target.ndim else 0
    tokens = [t for t in next_tokens.sequences(inputs, called.classes) if len(t) > 1]
    kept = min([rows, *(len(given) for given in tokens)])
    if not kept or called.target.ndim < 2:
        return None
    return next_tokens.offsets([given[:kept] for given in tokens], called.target[:kept], None)


def _outside_share(called: Called, finite_N: Array) -> float | None:
    bounds = RANGES.get(next((name for name in called.chain if name != "cast"), ""))
    if called.operation != "elementwise" or bounds is None or not finite_N.size:
        return None
    low, high = bounds
    return float(((finite_N < low - TOLERANCE) | (finite_N > high + TOLERANCE)).mean())


def _confusion(called: Called) -> tuple[int, ...] | None:
    """Labels against predicted classes, row by row; None where there are none or too many."""
    classes = called.classes
    if not classes or not 2 <= classes <= MAX_CONFUSED:
        return None
    if called.is_binary:
        if called.prediction.shape != called.target.shape:
            return None
        predicted, labels = (called.prediction > 0.5).astype(np.int64), called.target
    else:
        if called.prediction.ndim != 2 or called.target.ndim != 1:
            return None
        predicted, labels = called.prediction.argmax(axis=-1), called.target
    labels = labels.reshape(-1)
    kept = np.isfinite(labels) & (labels >= 0) & (labels < classes)
    places = labels[kept].astype(np.int64) * classes + predicted.reshape(-1)[kept]
    return tuple(np.bincount(places, minlength=classes * classes).tolist())


def _telling_columns(inputs: Sequence[Array], called: Called) -> tuple[tuple[int, ...], int] | None:
    """Return the columns that leak the target, in the rows that were kept of both."""
    rows = min((len(given) for given in inputs if given.ndim), default=0)
    target = called.target[:rows] if called.target.ndim else called.target
    return telling_columns([given[: len(target)] for given in inputs if given.ndim], target)


def add_targets(baseline: ConstantBaseline, called: Called) -> None:
    """Add the targets of a call to the baseline of the evaluation that it belongs to."""
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
    """Return the baseline of an evaluation of one call."""
    baseline = ConstantBaseline()
    add_targets(baseline, called)
    return baseline


@dataclass(slots=True)
class TargetsInOrder:
    """The targets that one loss call site was given, step after step."""

    site: str
    location: str | None
    steps: list[int] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)
    moments: list[tuple[float, float, float]] = field(default_factory=list)

    @quiet
    def add(self, step: int, called: Called) -> None:
        """Take the targets of a step."""
        is_known = bool(self.steps) and self.steps[-1] == step
        if is_known or not called.target.size or len(self.steps) >= MOST:
            return
        labels = called.target.reshape(-1)[:MAX_TARGETS]
        counts = label_counts(called)
        if counts is not None and not self.moments:
            width = -(-len(counts) // BINS)
            grouped = np.add.reduceat(counts, np.arange(0, len(counts), width))
            self.counts.append(grouped.tolist())
        elif counts is None and not self.counts and called.target.size == len(called.target):
            values = labels.astype(np.float64)
            self.moments.append((float(len(values)), float(values.mean()), float(values.var())))
        else:
            return
        self.steps.append(step)

    def told(self, step: int, *, loader: str | None, sampler: str | None) -> TargetOrder | None:
        """Return the fact, after some numbers of steps; None at all others."""
        if len(self.steps) not in TELL_AT or self.steps[-1] != step:
            return None
        classes = max((len(counts) for counts in self.counts), default=0)
        return TargetOrder(
            step=step,
            site=self.site,
            steps=tuple(self.steps),
            counts=tuple((*c, *[0] * (classes - len(c))) for c in self.counts),
            moments=tuple(self.moments),
            loader=loader,
            sampler=sampler,
            location=self.location,
        )
