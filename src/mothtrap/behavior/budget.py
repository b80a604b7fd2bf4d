"""Limits on the predictions and seconds that all probes take together."""

from __future__ import annotations

import math
import sys
import time

from mothtrap.core.errors import NotEnoughData

SECONDS = 120.0
"""Default time of a probe run; chosen by hand."""
PREDICTIONS = 20_000_000
"""Default number of predicted rows; chosen by hand: 1,000 passes over 20,000 rows."""


class BudgetSpent(NotEnoughData):
    """The time or prediction budget is used up."""


class Budget:
    """Counts predictions and elapsed time.

    Args:
        seconds: Time limit, starting now.
        predictions: Number of rows that may be predicted.

    Attributes:
        predicted: Number of rows predicted so far.
    """

    def __init__(self, seconds: float = SECONDS, predictions: int = PREDICTIONS) -> None:
        self._begun, self._seconds, self._predictions = time.monotonic(), seconds, predictions
        self.predicted = 0

    @classmethod
    def unlimited(cls) -> Budget:
        """Return a budget that is never spent, for questions that a person asks."""
        return cls(math.inf, sys.maxsize)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun

    def spend(self, rows: int = 0) -> None:
        """Deduct rows from the budget before they are predicted.

        Raises:
            BudgetSpent: the remaining time or predictions are not enough.
        """
        if self.elapsed_s > self._seconds:
            raise BudgetSpent(
                f"the budget of {self._seconds:g} s is used up; raise it with --budget"
            )
        if self.predicted + rows > self._predictions:
            raise BudgetSpent(f"the budget of {self._predictions:,} predictions is used up")
        self.predicted += rows
