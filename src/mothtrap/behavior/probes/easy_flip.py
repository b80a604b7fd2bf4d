"""BEH108: a very small change of a row changes its predicted class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.counterfactuals import search
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 30


@frozen
class EasyFlip(Probe):
    """A very small change to a row changes its predicted class.

    What it detects:
        The smallest change of at most three columns that changes the predicted class, for 30 rows.

    Why it matters:
        Anyone who knows the model can get any answer with a change that is hard to notice.

    Fires:
        When the median change is below 1 % of the range of the columns.

    Stays quiet:
        Regression.

    What to do:
        - Regularize the model, and compare the changed rows with their neighbors in the training
          data.
        - Use `report.counterfactual(row)` to see which columns change.

    References:
        Wachter et al., Counterfactual explanations without opening the black box, 2017.
    """

    code = "BEH108"
    severity = Severity.INFO
    cost = 3

    least: float = threshold(0.01, unit="share of the range", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Search the smallest change for some rows."""
        subject.require_columns()
        if subject.reading.is_regression:
            raise NotApplicable("the model predicts numbers")
        places = subject.asked[:: max(1, len(subject.asked) // ROWS)][:ROWS]
        distances = []
        for place in places:
            found = search(subject, subject.table.take(np.array([place])))
            distances.append(found.distance if found is not None else np.inf)
        middle = float(np.median(distances))
        if middle < self.least:
            yield Suspicion(
                message=f"the class of half of {len(places)} rows changes when columns change by "
                f"{percent(middle, 2)} of their range",
                rows=subject.judged.rows_R[places],
                exact=True,
                evidence={"n": len(places), "value": middle, "reference": self.least},
            )
