"""Loss of the best constant prediction, which a model should beat.

Shape suffixes: N = elements, R = rows, F = columns, K = classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_CLASSES = 1 << 16
"""Maximum number of classes whose labels are counted; chosen by hand."""
MAX_COLUMNS = 4096
MAX_REPORTED = 1000
"""Maximum number of classes whose evaluation labels are recorded; with more, labels are tokens."""


class ConstantBaseline:
    """Collects the targets of loss calls, batch by batch.

    Every batch must be of the same kind: labels of a class loss, probabilities of a binary
    cross-entropy, or numbers of a squared error.
    """

    def __init__(self) -> None:
        self._counts_K: Array | None = None
        self._smoothing = 0.0
        self._rows = 0
        self._sums_F: Array | None = None
        self._squares_F = np.zeros(0)
        self._is_binary = False
        self._factor = 1.0
        self._is_known = True

    def add_labels(self, labels: Array, classes: int, *, smoothing: float = 0.0) -> None:
        """Add hard labels of a cross-entropy; labels outside of the classes do not count.

        Args:
            labels: class numbers, of any shape.
            classes: number of classes.
            smoothing: share of the target that label smoothing spreads over all classes.
        """
        self._smoothing = smoothing
        labels_N = labels.reshape(-1)
        labels_N = labels_N[(labels_N >= 0) & (labels_N < classes)].astype(np.int64)
        fits = self._counts_K is None or len(self._counts_K) == classes
        if classes > MAX_CLASSES or self._rows or not fits:
            self.set_unknown()
            return
        counts_K = np.bincount(labels_N, minlength=classes)
        self._counts_K = counts_K if self._counts_K is None else self._counts_K + counts_K

    def add_numbers(self, target: Array, *, is_binary: bool, factor: float = 1.0) -> None:
        """Add targets of a binary cross-entropy, or of a squared error.

        Args:
            target: shape (R, ...).
            is_binary: Whether the targets belong to a binary cross-entropy.
            factor: factor of the squared error, such as 0.5.
        """
        if not target.ndim or not len(target):
            return
        rows_RF = target.reshape(len(target), -1)
        columns = rows_RF.shape[1]
        fits = self._sums_F is None or len(self._sums_F) == columns
        if columns > MAX_COLUMNS or self._counts_K is not None or not fits:
            self.set_unknown()
            return
        rows_RF = rows_RF.astype(np.float64)
        if self._sums_F is None:
            self._sums_F, self._squares_F = np.zeros(columns), np.zeros(columns)
            self._is_binary, self._factor = is_binary, factor
        self._rows += len(rows_RF)
        # targets may be infinite, and the script may let NumPy raise exceptions
        with np.errstate(all="ignore"):
            self._sums_F += rows_RF.sum(axis=0)
            self._squares_F += np.square(rows_RF).sum(axis=0)

    def set_unknown(self) -> None:
        """Mark the loss as unknown: it is weighted, or of an unsupported kind."""
        self._is_known = False

    def loss(self) -> float | None:
        """Return the loss of the best constant prediction; None if it is not known."""
        if not self._is_known:
            return None
        if self._counts_K is not None:
            return self._cross_entropy(self._counts_K)
        if self._sums_F is None:
            return None
        mean_F = self._sums_F / self._rows
        if not self._is_binary:
            with np.errstate(all="ignore"):
                variance_F = np.maximum(self._squares_F / self._rows - np.square(mean_F), 0)
            return self._factor * float(variance_F.mean())
        if not (mean_F.min() >= 0 and mean_F.max() <= 1):
            return None
        return float((_entropy(mean_F) + _entropy(1 - mean_F)).mean())

    def moments(self) -> tuple[float | None, float | None]:
        """Return mean and standard deviation of the targets of a squared error, else None."""
        if self._sums_F is None or self._is_binary:
            return None, None
        count = self._rows * len(self._sums_F)
        with np.errstate(all="ignore"):
            mean = float(self._sums_F.sum()) / count
            variance = float(self._squares_F.sum()) / count - mean**2
        return mean, math.sqrt(max(variance, 0.0))

    def label_counts(self) -> tuple[int, ...] | None:
        """Return the hard labels of each class; None if there are none, or too many classes."""
        if self._counts_K is not None:
            return tuple(self._counts_K.tolist()) if len(self._counts_K) <= MAX_REPORTED else None
        if self._sums_F is None or len(self._sums_F) != 1 or not self._is_binary:
            return None
        ones = float(self._sums_F[0])
        if not 0 <= ones <= self._rows or float(self._squares_F[0]) != ones:
            return None  # not all targets are 0 or 1
        return self._rows - int(ones), int(ones)

    def _cross_entropy(self, counts_K: Array) -> float | None:
        total = int(counts_K.sum())
        if not total:
            return None
        share_K = counts_K / total
        share_K = (1 - self._smoothing) * share_K + self._smoothing / len(counts_K)
        return float(_entropy(share_K).sum())


def _entropy(shares: Array) -> Array:
    """Return -p log p of each share, 0 for a share of 0."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return 0.0 - shares * logs
