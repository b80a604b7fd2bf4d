"""Results of inspecting a step's gradients, for the guard and the rules."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from mothtrap.capture.pending import PendingRows
from mothtrap.capture.statistics_rows import Rows
from mothtrap.statistics.summary import FIELDS, WIDTH

_NAN, _INF, _L2 = (FIELDS.index(name) for name in ("nan", "inf", "l2"))


class GradientLook:
    """Result of checking some gradients.

    Attributes:
        is_late: whether the result may still be in transfer from a device, so that reading it
            waits.

    Args:
        rows: float64, shape (T, F), or an object that waits for them.
    """

    def __init__(self, rows: Rows | Callable[[], Rows]) -> None:
        self._rows, self.is_late = rows, callable(rows)
        if isinstance(rows, np.ndarray):  # both columns together
            # A missing value is NaN, and therefore never above 0.
            self.nonfinite = bool((rows[:, _NAN : _INF + 1] > 0).any())
            self.norm = math.hypot(*rows[:, _L2].tolist())  # whose square does not overflow

    @property
    def _known(self) -> Rows:
        if callable(self._rows):
            self._rows = self._rows()
        return self._rows

    @functools.cached_property
    def nonfinite(self) -> bool:
        """Return whether any gradient contains NaN or an infinite value."""
        return GradientLook(self._known).nonfinite

    @functools.cached_property
    def tensors(self) -> int:
        """Return the number of tensors checked for NaN and Inf."""
        return int(np.count_nonzero(~np.isnan(self._known[:, _NAN] + self._known[:, _INF])))

    @functools.cached_property
    def norm(self) -> float:
        """Return the norm of all finite values; NaN if any norm is missing."""
        return GradientLook(self._known).norm


NONE_SEEN = GradientLook(np.empty((0, WIDTH)))


class GradientLooks:
    """Collects the rows of gradients until they are checked.

    Attributes:
        rows: statistics of gradients since the last check; shapes (T, F).
    """

    def __init__(self) -> None:
        self.rows: list[Rows | PendingRows] = []

    def take(self) -> GradientLook:
        """Return the check of all gradients since the last call."""
        rows, self.rows = self.rows, []
        if not rows:
            return NONE_SEEN
        known = []
        for part in rows:
            if not isinstance(part, np.ndarray):
                return GradientLook(functools.partial(_waited_for, rows))
            known.append(part)
        return GradientLook(np.concatenate(known) if len(known) > 1 else known[0])


def _waited_for(rows: list[Rows | PendingRows]) -> Rows:
    return np.concatenate([part if isinstance(part, np.ndarray) else part.rows() for part in rows])
