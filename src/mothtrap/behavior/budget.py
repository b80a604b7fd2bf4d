"""Limits on the predictions and seconds that all probes take together."""

from __future__ import annotations

import time

from mothtrap.core.errors import NotEnoughData

SECONDS = 120.0
"""Default time of a probe run; chosen by hand."""
PREDICTIONS = 20_000_000
"""Default number of predicted rows; chosen by hand: 1,000 passes over 20,000 rows."""


class BudgetSpent(NotEnoughData):
    """No seconds or predictions are left."""


class Budget:
    """Counts predictions and watches the clock.

    Args:
        seconds: from now on.
        predictions: rows that may be predicted.

    Attributes:
        predicted: rows predicted so far.
    """

    def __init__(self, seconds: float = SECONDS, predictions: int = PREDICTIONS) -> None:
        self._begun, self._seconds, self._predictions = time.monotonic(), seconds, predictions
        self.predicted = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun

    def spend(self, rows: int = 0) -> None:
        """Take rows from the budget before they are predicted.

        Raises:
            BudgetSpent: the seconds or the predictions do not suffice.
        """
        if self.elapsed_s > self._seconds:
            raise BudgetSpent(
                f"the budget of {self._seconds:g} s was spent; raise it with --budget"
            )
        if self.predicted + rows > self._predictions:
            raise BudgetSpent(f"the budget of {self._predictions:,} predictions was spent")
        self.predicted += rows
