"""BEH205: some rows have very large errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.confirm import poisson_above
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.sklearn.comparisons import nearest
from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

NEIGHBORS = 10
"""Number of nearest rows to compare with; the usual number."""
FOR_NORMAL = 1.4826
"""The median absolute deviation times this is the standard deviation of a normal distribution."""
UNLIKELY = 1e-3
LEAST = 3
"""Fewest rows for which classes are reported; chosen by hand: forests give a probability of 0."""


@frozen
class OutlierRows(Probe):
    """A few rows have far larger errors than all others.

    What it detects:
        Regression: residuals of more than 10 robust standard deviations. Probabilities: rows whose
        true class got a probability below 0.001, if there are more of them than the probabilities
        predict.

    Why it matters:
        Such rows are often errors in the data: wrong labels, wrong units, rows of a different kind.
        They dominate the squared error and the log loss.

    Fires:
        For regression, when there is at least one such row. For classes, when their number has a
        p-value below 1e-4.

    Stays quiet:
        Models that return only labels.

    What to do:
        - Look at the rows. If the ten nearest rows agree with the model, suspect the target.
        - Train with a robust loss (Huber, absolute error) if the rows are real.

    References:
        Rousseeuw and Croux, Alternatives to the median absolute deviation, 1993.
    """

    code = "BEH205"
    severity = Severity.INFO

    deviations: float = threshold(10.0, unit="robust standard deviations", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Find rows with extreme residuals."""
        judged = subject.judged
        if subject.reading.form == "labels":
            raise NotApplicable("the model returns labels, not probabilities")
        if judged.reading.is_regression:
            centred_R = np.abs(judged.residual_R - np.median(judged.residual_R))
            spread = FOR_NORMAL * float(np.median(centred_R))
            bad = (
                np.flatnonzero(centred_R > self.deviations * spread) if spread else np.zeros(0, int)
            )
            bad = bad[np.argsort(-centred_R[bad])]
            p = None
            what = f"residuals of more than {self.deviations:g} robust standard deviations"
        else:
            of_truth_R = judged.scores[np.arange(len(judged)), judged.target_R.clip(0)]
            bad = np.flatnonzero(of_truth_R < UNLIKELY)
            bad = bad[np.argsort(of_truth_R[bad])]
            expected = float(np.where(judged.scores < UNLIKELY, judged.scores, 0).sum())
            p = poisson_above(len(bad), expected)
            what = f"a probability below {UNLIKELY:g} for their true class"
            few = len(bad) < max(LEAST, UNLIKELY * len(judged))
            if few or p > 1e-4:  # the probabilities predict as many
                return
        if not len(bad):
            return
        agreeing = _agreeing(subject, bad)
        yield Suspicion(
            message=f"{len(bad):,} row{'s have' if len(bad) > 1 else ' has'} {what}; "
            f"for {agreeing} of the first {min(len(bad), 20)} the nearest rows agree with the "
            "model",
            p=p,
            exact=p is None,
            rows=judged.rows_R[bad],
            evidence={"n": len(bad), "value": len(bad), "agreeing": agreeing},
        )


def _agreeing(subject: Subject, bad: npt.NDArray[Any]) -> int:
    """Count the rows whose neighbors have targets nearer to the prediction than to the target."""
    judged, some = subject.judged, bad[:20]
    if len(judged) <= NEIGHBORS + 1:
        return 0
    near = nearest(Encoder(subject.table).one_hot(subject.table), some, NEIGHBORS + 1)
    agreeing = 0
    for row, others in zip(some, near, strict=True):
        targets = judged.target_R[[i for i in others if i != row][:NEIGHBORS]]
        if judged.reading.is_regression:
            middle = float(np.median(targets))
            model = abs(middle - judged.scores[row, 0])
            agreeing += model < abs(middle - judged.target_R[row])
        else:
            agreeing += int((targets == judged.scores[row].argmax()).mean() > 0.5)
    return agreeing
