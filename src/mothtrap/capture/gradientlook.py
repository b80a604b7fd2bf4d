"""What the look at the gradients of a step has told, for who decides about the step."""

from __future__ import annotations

import functools
import math

import numpy as np

from mothtrap.capture.rows import Rows
from mothtrap.statistics.summary import FIELDS, WIDTH

_NAN, _INF, _L2 = (FIELDS.index(name) for name in ("nan", "inf", "l2"))


class GradientLook:
    """What some gradients were found to be.

    Attributes:
        nonfinite: whether one of them holds NaN or an infinite value.
    """

    def __init__(self, rows_TF: Rows) -> None:
        self._rows_TF = rows_TF
        # An absent value is NaN, and so never above 0.
        self.nonfinite = bool((rows_TF[:, _NAN] > 0).any() or (rows_TF[:, _INF] > 0).any())

    @functools.cached_property
    def tensors(self) -> int:
        """How many were looked at for NaN and Inf."""
        return int(np.count_nonzero(~np.isnan(self._rows_TF[:, _NAN] + self._rows_TF[:, _INF])))

    @functools.cached_property
    def norm(self) -> float:
        """The norm of all their finite values; NaN where one's was not taken."""
        l2_T = self._rows_TF[:, _L2]
        with np.errstate(all="ignore"):
            return math.sqrt(float(np.dot(l2_T, l2_T)))


NONE_SEEN = GradientLook(np.empty((0, WIDTH)))


class GradientLooks:
    """Collects the rows of gradients until somebody takes the look."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []

    def add(self, rows_TF: Rows) -> None:
        """Take in statistics of gradients; shape (T, F)."""
        self._rows.append(rows_TF)

    def take(self) -> GradientLook:
        """What was seen since the last call."""
        rows, self._rows = self._rows, []
        if not rows:
            return NONE_SEEN
        return GradientLook(np.concatenate(rows) if len(rows) > 1 else rows[0])
