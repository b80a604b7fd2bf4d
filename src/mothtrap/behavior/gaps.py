"""Comparison of the rows of a segment with all other rows, on the confirming half.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.behavior.confirm import pooled, welch
from mothtrap.behavior.probe import percent
from mothtrap.behavior.segments import Floats, Mask, Segment
from mothtrap.behavior.subject import Judged, Subject

LEVELS = 10
"""Groups of rows with a similar prediction; chosen by hand."""
COVERED = 0.8
"""Share of a segment's rows in segments found before from which it is a part of them."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Mean of a value in a segment and elsewhere, with the 99 % interval of the difference."""

    inside: float
    outside: float
    rows: int
    p: float
    interval: tuple[float, float]

    @property
    def ratio(self) -> float:
        """The mean inside divided by the mean outside."""
        return self.inside / self.outside if self.outside > 0 else float("inf")


def gap_in(subject: Subject, segment: Segment, value_R: Floats) -> Gap:
    """Measure how far a segment exceeds the rest, on rows that were not used to find it."""
    return gap_of(segment.mask(subject.table), value_R, subject.confirm_R)


def gap_of(mask_R: Mask, value_R: Floats, judged_R: Mask) -> Gap:
    """Compare the rows of a mask with the others, among the judged rows."""
    inside_R, outside_R = value_R[mask_R & judged_R], value_R[~mask_R & judged_R]
    if not len(inside_R) or not len(outside_R):
        return Gap(0.0, 0.0, len(inside_R), 1.0, (-np.inf, np.inf))
    p, interval = welch(inside_R, outside_R)
    p = max(p, pooled(inside_R, outside_R))
    return Gap(float(inside_R.mean()), float(outside_R.mean()), len(inside_R), p, interval)


def is_known(
    subject: Subject, value_R: Floats, mask_R: Mask, taken_R: Mask, least_ratio: float
) -> bool:
    """Return whether a segment lies in a known segment, and is not much worse.

    Args:
        subject: The probed model and its rows.
        value_R: Value of each row, such as its error.
        mask_R: Rows of the segment.
        taken_R: Rows of the segments already found.
        least_ratio: Ratio of mean values above which a segment is much worse than the found ones.
    """
    inside_R, known_R = mask_R & subject.confirm_R, taken_R & subject.confirm_R
    if not known_R.any() or (inside_R & known_R).sum() < COVERED * inside_R.sum():
        return False
    return float(value_R[inside_R].mean()) < least_ratio * float(value_R[known_R].mean())


class Remaining:
    """A value per row, from which the excess of each confirmed segment is removed in turn.

    Otherwise, each part of a weak segment would be confirmed as another weak segment.

    Args:
        subject: The probed model and its rows.
        value_R: Value of each row, such as its error.
    """

    def __init__(self, subject: Subject, value_R: Floats) -> None:
        self._subject, self.value_R = subject, value_R.astype(np.float64).copy()

    def gap(self, segment: Segment) -> Gap:
        """Measure the excess of a segment, and remove it."""
        mask_R = segment.mask(self._subject.table)
        found = gap_of(mask_R, self.value_R, self._subject.confirm_R)
        inside_R = mask_R & self._subject.confirm_R
        if inside_R.any():
            self.value_R[inside_R] -= found.inside - found.outside
        return found


def in_words(judged: Judged, segment: Segment | None, gap: Gap) -> str:
    """Describe the errors of the model in a segment and elsewhere."""
    where = f"where {segment}, " if segment is not None else ""
    if judged.are_errors_counted:
        inside, outside = percent(gap.inside, 1), percent(gap.outside, 1)
        return f"{where}{inside} of the rows are wrong, elsewhere {outside}"
    what = "absolute error" if judged.reading.is_regression else "loss"
    return f"{where}the mean {what} is {gap.inside:.3g}, elsewhere {gap.outside:.3g}"


def beyond_prediction(residual_R: Floats, prediction_R: Floats) -> Floats:
    """Return residuals minus their mean among rows with a similar prediction.

    An over- or underconfident model is biased wherever its predictions are extreme: this is a
    calibration error, not a weakness of a segment.
    """
    left_R = residual_R.copy()
    for rows in np.array_split(np.argsort(prediction_R, kind="stable"), LEVELS):
        if len(rows):
            left_R[rows] -= left_R[rows].mean()
    return left_R
