"""A loss call and its predictions, computed from arrays on the host.

Shape suffixes: N = elements, R = rows, K = classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.describe.constant_baseline import MAX_CLASSES
from mothtrap.tracing.describe.quiet_numpy import quiet

Array = npt.NDArray[Any]

MAX_TARGETS: Final = 1 << 16
"""Maximum number of inspected targets of a call, from the first rows."""
TOLERANCE: Final = 1e-3
"""Distance beyond a range that counts as rounding, e.g. for a resized image; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One loss call, with arrays on the host.

    Attributes:
        operation: as in `LossCall`.
        chain: as in `LossCall`.
        classes: None except for a class loss.
        target: hard labels, probabilities or numbers.
        prediction: probabilities or numbers.
        smoothing: share of the target that label smoothing spreads over all classes.
        squared: factor of the squared difference; None for other losses.
        is_weighted: the loss weights classes or rows.
        counted: whether the loss counts a target, in the shape of the targets; None if it counts
            all, or this is unknown.
    """

    operation: str
    chain: tuple[str, ...]
    classes: int | None
    target: Array
    prediction: Array
    smoothing: float = 0.0
    squared: float | None = None
    is_weighted: bool = False
    counted: Array | None = None

    @property
    def is_binary(self) -> bool:
        """Return whether each output is its own binary class."""
        return self.operation.startswith("binary")


def softmax(logits_RK: Array) -> Array:
    """Return the softmax over the last axis; NaN if a row is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        shifted_RK = np.exp(logits_RK - logits_RK.max(axis=-1, keepdims=True))
        found: Array = shifted_RK / shifted_RK.sum(axis=-1, keepdims=True)
    return found


def rows_are_probabilities(values: Array) -> bool | None:
    """Return whether rows lie in [0, 1], sum to 1, and differ; None without data.

    Args:
        values: shape (..., classes).
    """
    if values.ndim < 2 or values.shape[-1] < 2 or not np.isfinite(values).all():
        return None
    rows_RK = values.reshape(-1, values.shape[-1])
    in_range = bool((rows_RK >= 0).all() and (rows_RK <= 1 + TOLERANCE).all())
    sums_R = rows_RK.sum(axis=1, dtype=np.float64)
    are_one = bool((np.abs(sums_R - 1) <= TOLERANCE).all())
    return in_range and are_one and bool((np.abs(rows_RK - rows_RK[:1]) > TOLERANCE).any())


def label_counts(called: Called) -> tuple[int, ...] | None:
    """Return the hard targets per class; None for soft targets or numbers."""
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
    if called.prediction.ndim < 2 or len(called.prediction) < 2 or not called.classes:
        return None
    rows_RK = called.prediction.reshape(-1, called.prediction.shape[-1]).astype(np.float64)
    if not np.isfinite(rows_RK).all():
        return None
    return float(rows_RK.std(axis=0).mean())
