"""BEH106: tiny changes of the inputs change the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mothtrap.behavior.confirm import binomial_above
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.comparisons import smooth_classes
from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import MAX_DISTINCT, Table
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

NEIGHBORS = 25
FOR_NORMAL = 1.4826
LARGE_RANGE = 20
"""Range of whole numbers above which a change by 1 is small; chosen by hand."""


@frozen
class FlipsOnNoise(Probe):
    """Noise far below any measurement error changes the predicted class.

    What it detects:
        The share of rows whose predicted class changes when noise is added: 1 % of a robust
        standard deviation to each number, and 1 to whole numbers with a large range. It is
        compared with a smooth model, 25 nearest neighbors.

    Why it matters:
        The prediction depends on digits that carry no information. It changes between two
        measurements of the same thing.

    Fires:
        When the share is above 2 %, and more than 3 times the share of the smooth model.

    Stays quiet:
        Rows close to a decision boundary, if a smooth model has it, too. Regression.

    What to do:
        - Regularize the model: more neighbors, larger leaves, weight decay, fewer trees.
        - Train with noise of this size added to the inputs.

    References:
        Ribeiro et al., CheckList, 2020.
    """

    code = "BEH106"
    severity = Severity.WARNING
    cost = 2

    least: float = threshold(0.02, unit="share of the rows", source="chosen by hand")
    times: float = threshold(3.0, unit="times the smooth model", source="chosen by hand")
    noise: float = threshold(0.01, unit="robust deviations", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Add noise, and count the changed predictions."""
        if subject.reading.is_regression:
            raise NotApplicable("the model predicts numbers")
        rows = subject.table.take(subject.asked)
        noisy = self._noisy(subject, rows)
        before_R = subject.judged.scores[subject.asked].argmax(axis=1)
        flipped_R = subject.ask(noisy).argmax(axis=1) != before_R
        share = float(flipped_R.mean())
        if share <= self.least:
            return
        smooth = _smooth_flips(subject, rows, noisy)
        if share <= self.times * smooth:
            return
        limit = max(self.least, self.times * smooth)
        yield Suspicion(
            message=f"noise of 1 % of the spread of each column changes the class of "
            f"{percent(share, 1)} of the rows; with a smooth model, of {percent(smooth, 1)}",
            p=binomial_above(int(flipped_R.sum()), len(rows), limit),
            rows=subject.judged.rows_R[subject.asked[flipped_R]],
            evidence={"n": len(rows), "value": share, "reference": smooth},
        )

    def _noisy(self, subject: Subject, rows: Table) -> Table:
        rng = subject.rng("noise")
        if not rows.columns:
            values = np.asarray(rows.data, np.float64)
            spread = float(np.median(np.abs(values - np.median(values)))) or float(values.std())
            noise = rng.normal(0, 1, values.shape) * self.noise * FOR_NORMAL * spread
            return Table((values + noise).astype(np.asarray(rows.data).dtype))
        new: dict[str, Any] = {}
        for column in rows.columns:
            own_R = column.number_R
            if own_R is None or column.distinct() <= MAX_DISTINCT:
                continue
            known = column.known_R
            if column.is_whole:
                if np.ptp(known) >= LARGE_RANGE:
                    new[column.name] = own_R + rng.choice([-1, 1], len(rows))
                continue
            spread = FOR_NORMAL * float(np.median(np.abs(known - np.median(known))))
            new[column.name] = own_R + rng.normal(0, 1, len(rows)) * self.noise * (
                spread or float(known.std())
            )
        if not new:
            raise NotApplicable("no column has numbers to which noise can be added")
        return rows.replaced(new)


def _smooth_flips(subject: Subject, rows: Table, noisy: Table) -> float:
    """Return the share of rows whose class changes in a model of 25 nearest neighbors."""
    if len(subject.judged) <= NEIGHBORS:
        raise NotEnoughData(f"needs more than {NEIGHBORS} rows")
    encoder = Encoder(subject.table)
    tables = [encoder.one_hot(each) for each in (subject.table, rows, noisy)]
    before, after = smooth_classes(tables[0], subject.judged.target_R, NEIGHBORS, tables[1:])
    return float((before != after).mean())
