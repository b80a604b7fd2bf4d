"""BEH109: the answer to a row depends on the other rows of the call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.curves import some_rows
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 64


@frozen
class DependsOnCompanions(Probe):
    """The prediction for a row changes with the other rows of the call, or from call to call.

    What it detects:
        Predictions for 64 rows that change if the same rows are passed again, in the reverse order,
        or in halves.

    Why it matters:
        The same customer gets a different prediction depending on who else is in the batch. Scores
        that were measured on large batches are not valid for single rows.

    Fires:
        When a prediction changes by more than 1 % of the range of the outputs.

    Stays quiet:
        Rounding differences between batch sizes.

    What to do:
        - PyTorch: call `model.eval()` before predicting. Otherwise batch normalization and dropout
          run in training mode.
        - Keras: call the model with `training=False`.
        - Compute means, scales, and ranks from the training data, not from the rows of the call.
    """

    code = "BEH109"
    severity = Severity.ERROR
    title = "predictions depend on other rows"

    least: float = threshold(0.01, unit="share of the output's range", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Pass the same rows again, in the reverse order, and in halves."""
        rows = some_rows(subject, ROWS)
        count = len(rows)
        if count < 4:
            raise NotEnoughData(f"needs 4 rows, has {count}")
        before = subject.ask(rows)
        again = subject.ask(rows)
        reverse = subject.ask(rows.take(np.arange(count)[::-1]))[::-1]
        odd, even = np.arange(1, count, 2), np.arange(0, count, 2)
        parts = np.empty_like(before)
        for places in (odd, even):
            parts[places] = subject.ask(rows.take(places))
        for after, what in (
            (again, "is passed again"),
            (reverse, "has another position in the batch"),
            (parts, "is passed with half of the other rows"),
        ):
            moved_R = self._moved(subject, before, after)
            if moved_R.any():
                largest = float(np.nanmax(np.abs(after - before)))
                yield Suspicion(
                    message=f"{int(moved_R.sum())} of {count} predictions change when the row "
                    f"{what}, by up to {largest:.3g}",
                    exact=True,
                    evidence={"n": count, "value": largest, "reference": self.least},
                )
                return

    def _moved(
        self, subject: Subject, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        moved = np.abs(after - before) > self.least * subject.output_range
        return np.asarray(moved.any(axis=1))
