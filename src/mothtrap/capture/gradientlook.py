"""What the look at the gradients of a step has told, for who decides about the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mothtrap.capture.rows import Rows
from mothtrap.statistics.summary import FIELDS

_NONFINITE = [FIELDS.index("nan"), FIELDS.index("inf")]
_L2 = FIELDS.index("l2")


@dataclass(frozen=True, slots=True)
class GradientLook:
    """What some gradients were found to be.

    Attributes:
        tensors: how many were looked at for NaN and Inf.
        nonfinite: whether one of them holds any.
        norm: of all their finite values; NaN where one's norm was not taken.
    """

    tensors: int = 0
    nonfinite: bool = False
    norm: float = 0.0


class GradientLooks:
    """Collects the rows of gradients until somebody takes the look."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []

    def add(self, rows_TF: Rows) -> None:
        """Take in statistics of gradients."""
        self._rows.append(rows_TF)

    def take(self) -> GradientLook:
        """What was seen since the last call."""
        if not self._rows:
            return GradientLook()
        rows_TF = np.concatenate(self._rows) if len(self._rows) > 1 else self._rows[0]
        self._rows = []
        found_T = rows_TF[:, _NONFINITE]
        l2_T = rows_TF[:, _L2]
        with np.errstate(all="ignore"):
            square = float(np.dot(l2_T, l2_T))
        return GradientLook(
            tensors=int(np.count_nonzero(~np.isnan(found_T).any(axis=1))),
            nonfinite=bool((found_T > 0).any()),
            norm=math.sqrt(square) if square >= 0 else math.nan,
        )
