"""BEH105: the model is confident, or far off, beyond the range of the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.curves import some_rows
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import MAX_DISTINCT, Table
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 256
BEYOND = (0.1, 0.5, 1.0)
SURE = 0.95
USUAL = 0.95
"""Mean confidence on the data above which the model cannot become much more confident."""
HALF = 0.5
"""A model counts as more confident if its mean doubt falls to this share; chosen by hand. The
outputs of trees stay the same beyond the data."""
TINY = 1e-9


@frozen
class Extrapolates(Probe):
    """Beyond the range of the data, the model is nearly certain or predicts impossible numbers.

    What it detects:
        Outputs for rows in which all numbers are moved away from the middle of the data, to 10,
        50, and 100 % of the range beyond its ends.

    Why it matters:
        Nothing was learned there. A model that is confident far from all data gives no warning
        when its inputs change.

    Fires:
        For classes, when the mean confidence is below 0.95 on the data, rises with the distance,
        and is above 0.95 at 100 %. The distance to 1 must also be less than half of the distance on
        the data and at 10 %. For regression, when more than half of the outputs at 100 % are
        outside of the range of the targets by more than that range. It is a note, because nearly
        all linear models and networks behave like this.

    Stays quiet:
        Models whose outputs stay the same beyond the data, such as trees.

    What to do:
        - Refuse or flag rows outside of the range of the training data.
        - Limit the outputs, or use a model that accounts for the distance from the data.

    References:
        Hein et al., Why ReLU networks yield high-confidence predictions far away, 2019.
    """

    code = "BEH105"
    severity = Severity.INFO

    sure: float = threshold(SURE, unit="mean confidence", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Move rows away from the data."""
        numbers = [c for c in subject.table.columns if c.is_number and c.distinct() > MAX_DISTINCT]
        if not numbers or subject.reading.form == "labels":
            raise NotApplicable("needs numeric columns, and numbers or probabilities as outputs")
        rows = some_rows(subject, ROWS)
        answers = [subject.ask(self._moved(rows, numbers, share)) for share in BEYOND]
        names = tuple(c.name for c in numbers[:4])
        if subject.reading.is_regression:
            target_R = subject.judged.target_R
            low, high = float(target_R.min()), float(target_R.max())
            output_R = answers[-1][:, 0]
            outside_R = (output_R < 2 * low - high) | (output_R > 2 * high - low)
            if outside_R.mean() > 0.5:
                yield Suspicion(
                    message=f"{percent(outside_R.mean())} of the outputs"
                    + " are outside the range of the targets by more than its width when all "
                    f"numbers lie 100 % beyond the data: targets {low:.4g} to {high:.4g}, outputs "
                    f"{output_R.min():.4g} to {output_R.max():.4g}",
                    features=names,
                    exact=True,
                    evidence={"n": len(rows), "value": float(outside_R.mean()), "reference": 0.5},
                )
            return
        usual = float(subject.judged.scores.max(axis=1).mean())
        means = [float(answer.max(axis=1).mean()) for answer in answers]
        if usual < USUAL and means[-1] > self.sure and _rises(usual, means):
            yield Suspicion(
                message=f"the mean confidence rises from {usual:.3g} on the data to {means[-1]:.4g}"
                " where all numbers lie 100 % beyond their range",
                features=names,
                exact=True,
                evidence={"n": len(rows), "value": means[-1], "reference": usual},
            )

    def _moved(self, rows: Table, numbers, share: float) -> Table:  # type: ignore[no-untyped-def]
        """Move the numbers of rows beyond the data, each to the side on which it is."""
        new = {}
        for column in numbers:
            known = column.known_R
            low, high = float(known.min()), float(known.max())
            own_R = rows.column(column.name).number_R
            above_R = own_R >= np.median(known)
            far = share * (high - low)
            new[column.name] = np.where(above_R, high + far, low - far)
        return rows.replaced(new)


def _rises(usual: float, means: list[float]) -> bool:
    """Return whether the mean confidence rises on the data and with the distance from them."""
    near, middle, far = (1 - mean for mean in means)
    grows = near + TINY >= middle >= far - TINY
    return grows and far < HALF * (1 - usual) and (near < TINY or far < HALF * near)
