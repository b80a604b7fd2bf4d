"""BEH302: in a segment, a simple model is right where this model is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.gaps import Gap, Remaining, is_known
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion
from mothtrap.behavior.segments import LEAST_ROWS, Mask, search
from mothtrap.behavior.sklearn.simple_models import NAMES, simple_judged
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

KINDS = ("linear", "tree", "boosting")


@frozen
class SimpleIsRight(Probe):
    """A model fitted for comparison is right in a segment in which this model is wrong.

    What it detects:
        Segments in which the errors of the model are much larger than the errors of a simple model:
        the best of a linear model, a tree, and gradient boosting with default settings.

    Why it matters:
        The answer is in the data. The model misses a rule that is easy to learn, often because the
        segment was missing in training, or encoded differently.

    Fires:
        When, in the confirming half, the error of the model in the segment is at least 1.5 times
        the error of the other model (for classes, also at least 5 points higher), and the
        difference is significant.

    Stays quiet:
        Segments that are hard for all models.

    What to do:
        - Check that the training rows contain the segment, and how its columns are encoded.
        - Give the segment more weight, or use the other model there.

    References:
        Chung et al., Slice Finder, 2019.
    """

    code = "BEH302"
    severity = Severity.WARNING
    explains = ("weak_segment", "biased", "beaten_by_simple", "miscalibrated", "no_gain")
    cost = 3

    least_ratio: float = threshold(1.5, unit="times the other error", source="chosen by hand")
    least_points: float = threshold(0.05, unit="error rate", source="chosen by hand")
    most: int = threshold(3, unit="segments", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Search segments by the difference of the errors."""
        if not subject.table.searched:
            raise NotApplicable("there are no columns; pass metadata of the rows with about=")
        propose_R = subject.propose_R
        others = {kind: simple_judged(subject, kind) for kind in KINDS}
        best = min(others, key=lambda kind: float(others[kind].error_R[propose_R].mean()))
        own_R, other_R = subject.judged.error_R, others[best].error_R
        value_R = (own_R - other_R)[propose_R]
        if subject.reading.is_regression:
            value_R = np.clip(value_R, *np.quantile(value_R, (0.01, 0.99)))
        found = search(
            subject.table.take(propose_R),
            value_R,
            most=self.most,
            is_enough=lambda m: self._is_large(subject, m, own_R[propose_R], other_R[propose_R]),
            spend=subject.budget.spend,
        )
        gain_R = own_R - other_R
        remaining, taken_R = Remaining(subject, gain_R), np.zeros(len(gain_R), bool)
        for candidate in found:
            whole_R = candidate.segment.mask(subject.table)
            mask_R = whole_R & subject.confirm_R
            p = mean_above(remaining.value_R[mask_R])[0]
            gap = remaining.gap(candidate.segment)
            enough = mask_R.sum() >= LEAST_ROWS and self._is_large(subject, mask_R, own_R, other_R)
            if not enough or is_known(subject, gain_R, whole_R, taken_R, self.least_ratio):
                yield REFUTED
                continue
            taken_R |= whole_R
            p = max(gap.p, p)
            own, other = float(own_R[mask_R].mean()), float(other_R[mask_R].mean())
            yield Suspicion(
                message=f"where {candidate.segment}, {NAMES[best]} has an error of {other:.3g}, "
                f"while the model has {own:.3g}",
                p=p,
                features=candidate.segment.columns,
                segment=candidate.segment,
                evidence=self._evidence(gap, own, other, best),
            )

    def _evidence(self, gap: Gap, own: float, other: float, best: str) -> dict[str, Any]:
        interval = list(gap.interval)
        return {
            "n": gap.rows,
            "value": own,
            "reference": other,
            "interval": interval,
            "model": best,
        }

    def _is_large(self, subject: Subject, mask_R: Mask, own_R, other_R) -> bool:  # type: ignore[no-untyped-def]
        own, other = float(own_R[mask_R].mean()), float(other_R[mask_R].mean())
        points = self.least_points if subject.judged.are_errors_counted else 0.0
        return own > 0 and own >= self.least_ratio * other and own - other >= points
