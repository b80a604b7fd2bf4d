"""BEH202: predictions that are too high or too low on average."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import LEAST_ROWS, mean_above
from mothtrap.behavior.gaps import beyond_prediction
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.reading import Floats
from mothtrap.behavior.segments import Candidate, Mask, Segment, search
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

MAX_CLASSES = 10
"""Number of checked classes, starting with the most frequent; chosen by hand."""


@frozen
class Biased(Probe):
    """Predictions are too high or too low on average, overall or in a segment.

    What it detects:
        For regression, a mean of target minus prediction that is not 0. For probabilities, a class
        whose share of the rows differs from its mean probability. Both are tested overall, and for
        segments given by a condition on one column.

    Why it matters:
        Sums and averages of the predictions are wrong, and so is every threshold set on them.

    Fires:
        When the mean differs from 0 by more than 0.1 standard deviations of the target, with a
        p-value below 1e-4. For numbers also when the overall mean exceeds 0.1 standard deviations
        of the residuals and 0.02 of the target: correcting it removes 1 % of the squared error. In
        a segment, the mean must also differ that much from the mean of other rows with a similar
        prediction. Segments that were found before are excluded.

    Stays quiet:
        Models that return only labels, because the most frequent label is a fair answer.

    What to do:
        - Compare how training and held-out rows were sampled: class weights, oversampling, time.
        - Train with a loss whose best answer is the mean (squared error), not the median.
        - Correct a constant bias by adding the mean residual of a validation set.

    References:
        Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019.
    """

    code = "BEH202"
    severity = Severity.WARNING

    least_share: float = threshold(
        0.1, unit="standard deviations of the target", source="chosen by hand"
    )
    least_of_residuals: float = threshold(
        0.1, unit="standard deviations of the residuals", source="chosen by hand"
    )
    least_at_all: float = threshold(
        0.02,
        unit="standard deviations of the target",
        source="chosen by hand: a model that is right has tiny residuals",
    )
    p_limit: float = threshold(1e-4, unit="p-value", source="chosen by hand")
    most: int = threshold(2, unit="segments", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Search for a mean residual that is not 0."""
        if subject.reading.form == "labels":
            raise NotApplicable("the model returns labels, not probabilities")
        for name, target_R, prediction_R in _targets(subject):
            residual_R, spread = target_R - prediction_R, float(target_R.std())
            if not spread:
                continue
            yield from self._overall(subject, name, residual_R, spread)
            yield from self._in_segments(subject, name, residual_R, spread, prediction_R)

    def _overall(
        self, subject: Subject, name: str, residual_R: Floats, spread: float
    ) -> Iterator[Suspicion]:
        sign = 1.0 if residual_R.mean() > 0 else -1.0
        p, interval = mean_above(sign * residual_R)
        limit = self.least_share * spread
        if subject.reading.is_regression:
            of_residuals = self.least_of_residuals * float(residual_R.std())
            limit = min(limit, max(of_residuals, self.least_at_all * spread))
        if 2 * p < self.p_limit and abs(residual_R.mean()) > limit:
            yield self._suspicion(name, residual_R, sign, 2 * p, interval, None)

    def _in_segments(
        self, subject: Subject, name: str, residual_R: Floats, spread: float, prediction_R: Floats
    ) -> Iterator[Suspicion]:
        """Find conditions on one column under which the mean differs, the clearest first."""
        left_R = beyond_prediction(residual_R, prediction_R)
        table, taken_R = subject.table.take(subject.propose_R), np.zeros(len(left_R), bool)
        for _ in range(self.most):
            found = [
                (each, sign)
                for sign in (1.0, -1.0)
                for each in self._clearest(subject, table, sign * left_R, spread)
            ]
            if not found:
                return
            candidate, sign = max(found, key=lambda each: each[0].z)
            segment_R = candidate.segment.mask(subject.table)
            mask_R = segment_R & subject.confirm_R
            given_R, limit = residual_R[mask_R], self.least_share * spread
            p, interval = mean_above(sign * given_R)
            p = max(p, mean_above(sign * left_R[mask_R])[0])
            # What is left can be large where the mean itself is not.
            large = mask_R.sum() >= LEAST_ROWS and (
                min(sign * left_R[mask_R].mean(), sign * given_R.mean()) > limit
            )
            if large and p < self.p_limit:
                yield self._suspicion(name, given_R, sign, p, interval, candidate.segment)
            taken_R |= segment_R
            for half_R in (subject.propose_R, subject.confirm_R):
                for rows_R in (segment_R & half_R, ~taken_R & half_R):
                    if rows_R.any():
                        left_R[rows_R] -= left_R[rows_R].mean()

    def _clearest(
        self, subject: Subject, table: Table, value_R: Floats, spread: float
    ) -> Iterator[Candidate]:
        """Return the condition under which the mean of a value is most clearly above 0."""
        proposed_R = value_R[subject.propose_R]

        def is_enough(mask_R: Mask) -> bool:
            return float(proposed_R[mask_R].mean()) > self.least_share * spread

        return search(
            table,
            proposed_R,
            most=1,
            longest=1,
            is_enough=is_enough,
            spend=subject.budget.spend,
        )

    def _suspicion(
        self,
        name: str,
        residual_R: Floats,
        sign: float,
        p: float,
        interval: tuple[float, float],
        segment: Segment | None,
    ) -> Suspicion:
        """Describe the mean of the residuals of the segment's rows."""
        mean = float(residual_R.mean())
        where = f"where {segment}, " if segment is not None else ""
        much = "low" if sign > 0 else "high"
        what = f"the probability of {name} is" if name else "predictions are"
        return Suspicion(
            message=f"{where}{what} too {much} by {abs(mean):.3g} on average",
            p=p,
            features=segment.columns if segment is not None else (),
            segment=segment,
            evidence={
                "n": len(residual_R),
                "value": mean,
                "reference": 0.0,
                "interval": sorted(sign * each for each in interval),
                **({"class": name} if name else {}),
            },
        )


def _targets(subject: Subject) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the name of a class or "", the target, and the prediction."""
    judged = subject.judged
    if judged.reading.is_regression:
        yield "", judged.target_R.astype(float), judged.scores[:, 0]
        return
    counts = np.bincount(judged.target_R.clip(0), minlength=len(judged.reading.classes))
    order = [1] if len(counts) == 2 else np.argsort(-counts)[:MAX_CLASSES].tolist()
    for k in order:
        target_R = (judged.target_R == k).astype(float)
        yield str(judged.reading.classes[k]), target_R, judged.scores[:, k]
