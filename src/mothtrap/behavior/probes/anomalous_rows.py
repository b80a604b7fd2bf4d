"""BEH604: some new rows are unlike all training rows, although the model is confident."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import poisson_above, poisson_bound
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.comparisons import Floats, distances
from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

FAR = 0.999
"""Quantile of the usual distances above which a row is far: 1 of 1,000 usual rows is."""
LEAST_ROWS = 500
MAX_ROWS = 10_000
"""Usual rows in which neighbors are searched; chosen by hand: a second for 20,000 new rows."""


@frozen
class AnomalousRows(Probe):
    """Some new rows are unlike all training rows, although the model is confident about them.

    What it detects:
        New rows that are far from the training rows, or from the held-out rows if there are no
        training rows. A row is far if the distance to its tenth nearest neighbor is above 99.9 %
        of the distances of usual rows. All columns are scaled in the same way.

    Why it matters:
        Rows from another source, or with errors, are predicted like any other row.

    Fires:
        When there are at least 5 times as many far rows as expected, and significantly more than
        the 99.9 % upper bound of the expected number (p-value below 1e-6). For classes, only rows
        with a confidence above the median of the usual rows count.

    Stays quiet:
        Data with heavy tails, in which far rows are common. Fewer than 500 usual rows.

    What to do:
        - Look at the rows: their source, units, and missing values.
        - Refuse rows that are far from the training data, or send them to a person.

    References:
        Ramaswamy et al., Efficient algorithms for mining outliers from large data sets, 2000.
    """

    code = "BEH604"
    severity = Severity.WARNING
    cost = 2
    needs_new = True

    times: float = threshold(5.0, unit="times the expected number", source="chosen by hand")
    p_limit: float = threshold(1e-6, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare distances to the nearest usual rows."""
        new, usual = subject.new, subject.usual
        assert new is not None
        if len(usual) < LEAST_ROWS:
            raise NotEnoughData(f"needs {LEAST_ROWS} rows to compare with, has {len(usual)}")
        encoder = Encoder(usual.table)
        order = subject.rng("anomalies").permutation(len(usual))
        known, others = order[: min(len(order) // 2, MAX_ROWS)], order[len(order) // 2 :][:MAX_ROWS]
        usual_RF, new_RF = encoder.one_hot(usual.table), encoder.one_hot(new.table)
        subject.budget.spend()
        others_R, new_R = distances(usual_RF[known], [usual_RF[others], new_RF])
        (known_R,) = distances(usual_RF[others], [usual_RF[known]])
        usual_R = np.concatenate([others_R, known_R])  # twice the rows make the quantile surer
        sure_R, share_sure = self._sure(subject)
        limit = float(np.quantile(usual_R, FAR))
        far_R = (new_R > limit) & sure_R
        beyond = int((usual_R > limit).sum())
        expected = max(beyond, 1) / len(usual_R) * share_sure * len(new_R)
        # Few usual rows are beyond the limit, so their share is uncertain.
        most = poisson_bound(beyond) / len(usual_R) * share_sure * len(new_R)
        p = poisson_above(int(far_R.sum()), most)
        if far_R.sum() < self.times * expected or p >= self.p_limit:
            return
        bad = np.flatnonzero(far_R)
        bad = bad[np.argsort(-new_R[bad])]
        yield Suspicion(
            message=f"{len(bad):,} of {len(new_R):,} new rows ({percent(far_R.mean(), 1)}) "
            f"are far from every known row, and the model is confident about them; "
            f"{expected:.1f} are expected",
            p=p,
            rows=new.rows_R[bad],
            evidence={"n": len(new_R), "value": len(bad), "reference": expected, "limit": limit},
        )

    def _sure(self, subject: Subject) -> tuple[np.typing.NDArray[np.bool_], float]:
        """Return the new rows with a high confidence, and the share of such rows before."""
        new = subject.new
        assert new is not None
        if not subject.reading.has_probabilities:
            return np.ones(len(new), bool), 1.0
        usual_R: Floats = subject.judged.scores.max(axis=1)
        limit = float(np.median(usual_R))
        return new.scores.max(axis=1) >= limit, float((usual_R >= limit).mean())
