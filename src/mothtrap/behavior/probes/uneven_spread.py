"""BEH204: the size of the errors depends on the inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.residual_models import pattern_in
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class UnevenSpread(Probe):
    """The size of the errors can be predicted from the inputs or from the prediction.

    What it detects:
        Absolute residuals that a small boosted model can predict in rows that it has not seen. The
        predictable part of the residuals themselves is subtracted first.

    Why it matters:
        One interval for all predictions is too wide for some rows and too narrow for others, and
        the squared error is dominated by the noisy rows.

    Fires:
        When R2 is above 0.1 in the confirming half, and the correlation is significant.

    Stays quiet:
        Classification, in which the spread follows from the probability.

    What to do:
        - Predict the logarithm of the target if the spread grows with the prediction.
        - Weight rows by the inverse of their variance.
        - Train with a quantile loss if you need intervals.

    References:
        Breusch and Pagan, A simple test for heteroscedasticity, 1979.
    """

    code = "BEH204"
    severity = Severity.INFO
    cost = 2

    least_explained: float = threshold(0.1, unit="R2", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Fit a model to the absolute residuals."""
        if not subject.reading.is_regression:
            raise NotApplicable("the model predicts classes")
        judged = subject.judged
        mean = pattern_in(subject, judged.residual_R, "residual")
        size_R = np.abs(judged.residual_R - mean.fitted_R)
        size_R = np.minimum(size_R, np.quantile(size_R, 0.99))
        found = pattern_in(subject, size_R, "spread", judged.scores[:, 0])
        if found.explained > self.least_explained:
            named = " and ".join(found.names[:2]) or "several columns"
            yield Suspicion(
                message=f"{percent(found.explained)} of the variance"
                + f" of the size of the errors can be predicted, from {named}",
                p=found.p,
                features=tuple(n for n in found.names if n in subject.table.names),
                evidence={
                    "n": int(subject.confirm_R.sum()),
                    "value": found.explained,
                    "reference": self.least_explained,
                },
            )
