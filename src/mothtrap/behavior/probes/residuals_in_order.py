"""BEH207: errors of successive rows in time are correlated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import ljung_box
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class ResidualsInOrder(Probe):
    """Errors of successive rows in time are correlated.

    What it detects:
        Autocorrelation of the residuals in the order of `time`.

    Why it matters:
        The model misses a trend, a season, or a change. Also, successive rows are not independent
        test rows, so a score from shuffled folds is too good.

    Fires:
        When the first autocorrelation is above 0.1 or below -0.1, and the Ljung-Box test over 10
        lags gives a p-value below 1e-4.

    Stays quiet:
        Without a time column.

    What to do:
        - Add lagged targets, or features for season and trend.
        - Split by time, not at random, when the model is evaluated.

    References:
        Ljung and Box, On a measure of lack of fit in time series models, 1978.
    """

    code = "BEH207"
    severity = Severity.WARNING

    least: float = threshold(0.1, unit="autocorrelation", source="chosen by hand")
    p_limit: float = threshold(1e-4, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Test the residuals in time order."""
        time_R = subject.options.time_R
        if time_R is None:
            raise NotApplicable("no time was given")
        order = np.argsort(time_R, kind="stable")
        first, p = ljung_box(subject.judged.residual_R[order])
        if abs(first) > self.least and p < self.p_limit:
            yield Suspicion(
                message=f"residuals of successive rows in time have a correlation of {first:.2f} "
                f"(limit {self.least:g})",
                p=p,
                evidence={"n": len(order), "value": first, "reference": self.least},
            )
