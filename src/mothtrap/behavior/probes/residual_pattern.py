"""BEH203: the inputs predict the errors of the model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.gaps import beyond_prediction
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.sklearn.residual_models import Pattern, pattern_in
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ADDITIVE = 0.7
"""Share of the pattern that a model without interactions explains when none is missing; chosen by
hand."""


@frozen
class ResidualPattern(Probe):
    """The errors can be predicted from the inputs: the model misses a nonlinearity or interaction.

    What it detects:
        Residuals that a small boosted model can predict. It is fitted to the residuals of one half
        of the rows, and predicts more than 10 % of their variance in the other half.

    Why it matters:
        The residuals contain information that the model could use.

    Fires:
        When R2 is above 0.1 in the confirming half, the correlation is significant, and the
        predicted residuals vary by more than 0.02 (a probability, or a deviation of the target).
        A note if R2 is at most 0.25. The message names the columns, and says whether one column has
        a nonlinear effect or columns interact.

    Stays quiet:
        Noise, however large. Models that return only labels. Classes whose probabilities are too
        high or too low wherever they are extreme: see BEH206.

    What to do:
        - Add a nonlinear term of the named column (splines, bins, a power), or the product of the
          named columns.
        - Use a model that learns nonlinearities and interactions, such as gradient boosting.

    References:
        Friedman, Greedy function approximation, 2001.
    """

    code = "BEH203"
    severity = Severity.WARNING
    explains = ("weak_segment", "biased", "uneven_spread", "beaten_by_simple", "no_gain")
    cost = 2

    least_explained: float = threshold(
        0.1, unit="R2", source="measured: default boosting on friedman1 leaves 0.05"
    )

    clear: float = threshold(
        0.25,
        unit="R2",
        source="measured: boosting of 100 shallow trees on friedman1 leaves up to 0.2, a missing "
        "interaction 0.33 or more",
    )

    least_size: float = threshold(
        0.02,
        unit="deviation of the predicted residuals, for numbers in deviations of the target",
        source="chosen by hand: a model that is right has tiny residuals with a pattern",
    )

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Fit a model to the residuals."""
        if subject.reading.form == "labels":
            raise NotApplicable("the model returns labels, not probabilities")
        residual_R = subject.judged.residual_R
        if not subject.reading.is_regression:
            scores = subject.judged.scores
            said_R = scores[:, 1] if scores.shape[1] == 2 else scores.max(axis=1)
            residual_R = beyond_prediction(residual_R, said_R)
        found = pattern_in(subject, residual_R, "residual")
        size = float(np.sqrt(max(found.explained, 0.0)) * residual_R[subject.confirm_R].std())
        if subject.reading.is_regression:
            size /= max(float(subject.judged.target_R.std()), 1e-300)
        if found.explained > self.least_explained and size > self.least_size:
            yield Suspicion(
                message=f"{percent(found.explained)} of the variance of the residuals"
                + f" can be predicted from the inputs: {_shape(found)}",
                p=found.p,
                severity=Severity.INFO if found.explained <= self.clear else None,
                features=found.names,
                evidence={
                    "n": int(subject.confirm_R.sum()),
                    "value": found.explained,
                    "reference": self.least_explained,
                    "without_interactions": found.additive,
                },
            )


def _shape(found: Pattern) -> str:
    """Describe what the model misses."""
    if not found.names:
        return "many columns contribute a little"
    if found.additive >= ADDITIVE * found.explained or len(found.names) == 1:
        return f"the model misses how the target depends on {' and on '.join(found.names[:2])}"
    return f"the model misses the interaction of {' and '.join(found.names[:2])}"
