"""BEH201: a segment of the rows in which the model is wrong more often than elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import mean_above
from mothtrap.behavior.gaps import Gap, Remaining, gap_in, in_words, is_known
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion
from mothtrap.behavior.segments import Mask, Segment, search
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

FOUND = "weak segments"
P_LIMIT = 1e-4
"""Maximum p-value of a segment that further probes use; chosen by hand."""
AS_WRONG = 0.6
"""Another model with a larger share of the model's error is not clearly better. Measured: 0.6
to 0.9 in the hardest segments of default boosting and forests, 0.25 to 0.5 where a curve or an
interaction is missing."""
SURE = 0.01
"""p-value below which the other model is better in a segment; chosen by hand."""
FOR_HARD_ROWS = (
    "Look at the rows of the segment: their labels, missing values, and units.",
    "Add a feature that separates the cases within the segment, or refuse its rows.",
)


@frozen
class WeakSegment(Probe):
    """The model is wrong much more often in one segment of the rows.

    What it detects:
        A segment is a condition on at most three columns, such as `age >= 60 and kind = b`. The
        probe searches for segments with a high error in one half of the rows, and tests them in the
        other half.

    Why it matters:
        An overall score hides groups of rows for which the model is of little use.

    Fires:
        When, in the confirming half, the error in the segment is at least 1.5 times the error
        elsewhere (for classes, also at least 5 points higher), and the difference is significant
        (Welch's test, 1 % false discoveries among all candidates). A note unless a boosted model
        that is fitted for comparison has at most 0.6 times the error in these rows (paired test,
        p-value below 0.01): otherwise the rows are hard, or their labels are noisy.

    Stays quiet:
        Segments of fewer than 30 rows or 1 % of the rows. Segments of more than 75 % of the rows,
        because then the other rows are easy. Parts of a segment whose error is less than 1.5 times
        the error of the segment.

    What to do:
        - Look at the rows of the segment first: their labels, missing values, and units.
        - Collect more rows of the segment, or give them more weight in training.
        - Add a feature that separates the cases within the segment.

    References:
        Chung et al., Slice Finder, 2019; Sagadeeva and Boehm, SliceLine, 2021.
    """

    code = "BEH201"
    severity = Severity.WARNING
    cost = 2

    least_ratio: float = threshold(1.5, unit="times the error elsewhere", source="chosen by hand")
    least_points: float = threshold(0.05, unit="error rate", source="chosen by hand")
    most_rows: float = threshold(
        0.75,
        unit="share of the rows",
        source="chosen by hand: above it, the few other rows may just be easy",
    )
    most: int = threshold(5, unit="segments", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Search for segments with a high error."""
        judged, table = subject.judged, subject.table
        if not table.searched:
            raise NotApplicable("there are no columns; pass metadata of the rows with about=")
        error_R = judged.error_R[subject.propose_R]
        if judged.reading.is_regression:  # a few large errors would determine every mean
            error_R = np.minimum(error_R, np.quantile(error_R, 0.99))
        found = search(
            table.take(subject.propose_R),
            error_R,
            most=self.most,
            is_enough=lambda mask_R: self._is_enough(subject, mask_R, error_R),
            spend=subject.budget.spend,
        )
        remaining, taken_R = Remaining(subject, judged.error_R), np.zeros(len(judged), bool)
        for candidate in found:
            left = remaining.gap(candidate.segment)
            given = gap_in(subject, candidate.segment, judged.error_R)
            mask_R = candidate.segment.mask(table)
            known = is_known(subject, judged.error_R, mask_R, taken_R, self.least_ratio)
            # What is left may be below 0 elsewhere, where earlier segments were taken out.
            if not known and self._is_large(subject, left) and self._is_large(subject, given):
                taken_R |= mask_R
                gap = dataclasses.replace(given, p=left.p, interval=left.interval)
                subject.shared.setdefault(FOUND, []).append((candidate.segment, gap))
                yield self._suspicion(subject, candidate.segment, gap)
            else:
                yield REFUTED

    def _is_enough(self, subject: Subject, mask_R: Mask, error_R: np.ndarray) -> bool:
        if mask_R.mean() > self.most_rows:
            return False
        inside, outside = float(error_R[mask_R].mean()), float(error_R[~mask_R].mean())
        return self._is_large(subject, Gap(inside, outside, 0, 0, (0, 0)))

    def _is_large(self, subject: Subject, gap: Gap) -> bool:
        points = self.least_points if subject.judged.are_errors_counted else 0.0
        return gap.ratio >= self.least_ratio and gap.inside - gap.outside >= points

    def _suspicion(self, subject: Subject, segment: Segment, gap: Gap) -> Suspicion:
        from mothtrap.behavior.sklearn.simple_models import simple_judged

        compared = simple_judged(subject, "boosting")
        other = gap_in(subject, segment, compared.error_R)
        inside_R = segment.mask(subject.table) & subject.confirm_R
        gain_R = (subject.judged.error_R - compared.error_R)[inside_R]
        is_hard = other.inside > AS_WRONG * gap.inside or mean_above(gain_R)[0] > SURE
        text = in_words(subject.judged, segment, gap)
        if is_hard:
            text += "; a model fitted for comparison is not clearly better there"
        return Suspicion(
            message=text,
            p=gap.p,
            features=segment.columns,
            segment=segment,
            severity=Severity.INFO if is_hard else Severity.WARNING,
            fixes=FOR_HARD_ROWS if is_hard else (),
            code=() if is_hard else (_weighted(segment),),
            evidence={
                "n": gap.rows,
                "value": gap.inside,
                "reference": gap.outside,
                "interval": list(gap.interval),
                "comparison": other.inside,
            },
        )


def _weighted(segment: Segment) -> str:
    return (
        f'Give the segment more weight: `weight = np.where(X.eval("{segment.as_code()}"), 3, 1)`, '
        "then `model.fit(X, y, sample_weight=weight)`."
    )


def weak_segments(subject: Subject) -> list[tuple[Segment, Gap]]:
    """Return the weak segments that the confirming half supports, searching for each only once.

    Raises:
        NotApplicable: there are no columns in which segments could be searched.
    """
    if FOUND not in subject.shared:
        list(WeakSegment().look(subject))
        subject.shared.setdefault(FOUND, [])
    found: list[tuple[Segment, Gap]] = subject.shared[FOUND]
    return [(segment, gap) for segment, gap in found if gap.p < P_LIMIT]
