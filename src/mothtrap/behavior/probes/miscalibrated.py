"""BEH206: predicted probabilities do not match the observed frequencies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.reading import Floats
from mothtrap.behavior.sklearn.recalibration import tried
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

BINS = 10
DRAWS = 50
"""Number of simulations of a calibrated model, whose mean error is subtracted; chosen by hand."""


@frozen
class Miscalibrated(Probe):
    """The predicted probabilities do not match the observed frequencies.

    What it detects:
        Predicted probabilities that differ from the observed frequency of the class, in 10 bins of
        equal size. The class is class 1, or the predicted class if there are more than two classes.
        A recalibration is fitted to one half of the rows, and scored on the other half.

    Why it matters:
        Thresholds, expected costs, and model comparisons are wrong if the probabilities are wrong.

    Fires:
        When the expected calibration error, minus the error of a calibrated model with as many
        rows, is above 0.05, and Spiegelhalter's test gives a p-value below 1e-4. With more than two
        classes, the test of the mean confidence counts, too: Spiegelhalter's test ignores rows with
        a confidence near 0.5.

    Stays quiet:
        Models that return only labels.

    What to do:
        - Recalibrate on rows that were not used for training:
          `sklearn.calibration.CalibratedClassifierCV(model, method="isotonic")`, or `"sigmoid"`
          with fewer than 1,000 rows.
        - Train with less capacity, more regularization, or label smoothing if the model is
          overconfident.

    References:
        Guo et al., On calibration of modern neural networks, 2017; Spiegelhalter, Probabilistic
        prediction in patient management, 1986.
    """

    code = "BEH206"
    severity = Severity.WARNING

    least_error: float = threshold(0.05, unit="calibration error", source="chosen by hand")
    p_limit: float = threshold(1e-4, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare probabilities with outcomes."""
        if not subject.reading.has_probabilities:
            raise NotApplicable("the model returns no probabilities")
        judged = subject.judged
        sure_R = judged.scores.max(axis=1)
        right_R = 1 - judged.wrong_R
        if len(subject.reading.classes) == 2:
            said_R, came_R = judged.scores[:, 1], (judged.target_R == 1).astype(float)
        else:
            said_R, came_R = sure_R, right_R
        error = calibration_error(said_R, came_R) - _by_chance(said_R, subject.rng("calibration"))
        p = spiegelhalter(said_R, came_R)
        if len(subject.reading.classes) > 2:
            p = min(1.0, 2 * min(p, mean_differs(said_R, came_R)))
        if error <= self.least_error or p >= self.p_limit:
            return
        sure, right = float(sure_R.mean()), float(right_R.mean())
        word = "overconfident" if sure > right else "underconfident"
        trial = tried(judged, subject.propose_R, subject.confirm_R)
        yield Suspicion(
            message=f"the model is {word}: its mean confidence is {sure:.3g}, {right:.3g} of "
            f"its answers are right, and the calibration error is {error:.3g} (limit "
            f"{self.least_error:g})" + ("" if trial is None else f"; {trial.in_words}"),
            p=p,
            evidence={
                "n": len(judged),
                "value": error,
                "reference": self.least_error,
                "confidence": sure,
                "accuracy": right,
                **({} if trial is None else trial.evidence),
            },
        )


def calibration_error(said_R: Floats, came_R: Floats) -> float:
    """Return the expected calibration error over bins of equal size."""
    order = np.argsort(said_R, kind="stable")
    bins = np.array_split(order, min(BINS, max(len(order), 1)))
    gaps = [abs(float(said_R[rows].mean() - came_R[rows].mean())) * len(rows) for rows in bins]
    return sum(gaps) / max(len(order), 1)


def _by_chance(said_R: Floats, rng: np.random.Generator) -> float:
    """Return the mean calibration error of a calibrated model with the same probabilities."""
    drawn = [(rng.random(len(said_R)) < said_R).astype(float) for _ in range(DRAWS)]
    return float(np.mean([calibration_error(said_R, came_R) for came_R in drawn]))


def spiegelhalter(said_R: Floats, came_R: Floats) -> float:
    """Return the two-sided p-value of calibrated probabilities (Spiegelhalter, 1986)."""
    weight_R = 1 - 2 * said_R
    variance = float((weight_R**2 * said_R * (1 - said_R)).sum())
    if variance <= 0:
        return 1.0
    z = float(((came_R - said_R) * weight_R).sum()) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def mean_differs(said_R: Floats, came_R: Floats) -> float:
    """Return the two-sided p-value of a mean probability that equals the frequency (Cox, 1958)."""
    variance = float((said_R * (1 - said_R)).sum())
    if variance <= 0:
        return 1.0
    return math.erfc(abs(float((came_R - said_R).sum())) / math.sqrt(2 * variance))
