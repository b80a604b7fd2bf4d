"""BEH304: a segment in which the held-out error is far above the training error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.confirm import split_halves
from mothtrap.behavior.probe import REFUTED, Probe, Suspicion
from mothtrap.behavior.segments import LEAST_ROWS, Floats, Mask, search
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class OverfitBySegment(Probe):
    """The model overfits in one segment much more than elsewhere.

    What it detects:
        A segment in which the gap between held-out and training error is larger than elsewhere.

    Why it matters:
        The model has memorized the training rows of the segment. Its predictions in the segment are
        worse than the training error suggests.

    Fires:
        When, in the confirming half, the gap in the segment is at least twice the gap elsewhere,
        held-out errors in the segment are at least 1.5 times the errors elsewhere, and the excess
        is significant.

    Stays quiet:
        Models that overfit everywhere to the same degree. Without training rows.

    What to do:
        - Collect more training rows of the segment.
        - Regularize the model: larger leaves, fewer trees, weight decay.
        - Check the segment for columns that identify single rows.

    References:
        Chung et al., Slice Finder, 2019.
    """

    code = "BEH304"
    severity = Severity.WARNING
    explains = ("weak_segment",)
    cost = 2
    needs_train = True

    least_ratio: float = threshold(2.0, unit="times the gap elsewhere", source="chosen by hand")
    least_error: float = threshold(1.5, unit="times the error elsewhere", source="chosen by hand")
    most: int = threshold(3, unit="segments", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Search segments by the excess of the held-out error over the training error."""
        train, held = subject.train, subject.judged
        if train is None:
            raise NotApplicable("no training rows were given")
        if not subject.table.columns:
            raise NotApplicable("the inputs have no columns")
        first_R, second_R = split_halves(len(train), subject.rng("train halves"))
        propose = _Gaps(held, subject.propose_R, train, first_R)
        confirm = _Gaps(held, subject.confirm_R, train, second_R)
        found = search(
            propose.table,
            propose.value_R,
            most=self.most,
            is_enough=lambda mask_R: self._is_large(propose, mask_R),
            spend=subject.budget.spend,
        )
        for candidate in found:
            mask_R = candidate.segment.mask(confirm.table)
            if not self._is_large(confirm, mask_R):
                yield REFUTED
                continue
            held_error, train_error = confirm.errors(mask_R)
            yield Suspicion(
                message=f"where {candidate.segment}, the held-out error is {held_error:.3g} and "
                f"the training error {train_error:.3g}; elsewhere they are "
                + " and ".join(f"{each:.3g}" for each in confirm.errors(~mask_R)),
                p=confirm.p(mask_R),
                features=candidate.segment.columns,
                segment=candidate.segment,
                evidence={
                    "n": int((mask_R & confirm.held_R).sum()),
                    "value": held_error,
                    "reference": train_error,
                },
            )

    def _is_large(self, gaps: _Gaps, mask_R: Mask) -> bool:
        sizes = [int((mask_R & side).sum()) for side in (gaps.held_R, ~gaps.held_R)]
        if min(sizes) < LEAST_ROWS // 2:
            return False
        held, train = gaps.errors(mask_R)
        held_elsewhere, train_elsewhere = gaps.errors(~mask_R)
        elsewhere = max(held_elsewhere - train_elsewhere, 0.0)
        return held - train > self.least_ratio * elsewhere and (
            held > self.least_error * held_elsewhere
        )


class _Gaps:
    """Held-out and training rows in one table, with a value whose mean is the excess gap."""

    def __init__(self, held: Judged, held_R: Mask, train: Judged, train_R: Mask) -> None:
        own, other = held.table.take(held_R), train.table.take(train_R)
        columns = {
            c.name: np.concatenate(
                [np.asarray(c.given_R), np.asarray(other.column(c.name).given_R)]
            )
            for c in own.columns
        }
        self.table = Table(columns)
        self.held_R = np.arange(len(own) + len(other)) < len(own)
        self.error_R = np.concatenate([held.error_R[held_R], train.error_R[train_R]])
        means = [self.error_R[side].mean() for side in (self.held_R, ~self.held_R)]
        share = len(own) / len(other)
        self.value_R: Floats = np.where(
            self.held_R, self.error_R - means[0], -(self.error_R - means[1]) * share
        )

    def errors(self, mask_R: Mask) -> tuple[float, float]:
        """Return the mean held-out error and the mean training error of the rows of a mask."""
        held, train = self.error_R[mask_R & self.held_R], self.error_R[mask_R & ~self.held_R]
        return float(held.mean()) if len(held) else 0.0, float(train.mean()) if len(train) else 0.0

    def p(self, mask_R: Mask) -> float:
        """Return the p-value of the excess of the gap within the mask over the gap elsewhere."""
        from scipy.special import ndtr

        gap, variance = 0.0, 0.0
        for inside, sign in ((mask_R, 1.0), (~mask_R, -1.0)):
            for side, of in ((self.held_R, 1.0), (~self.held_R, -1.0)):
                values = self.error_R[inside & side]
                if len(values) < 2:
                    return 1.0
                gap += sign * of * float(values.mean())
                variance += float(values.var(ddof=1)) / len(values)
        return float(ndtr(-gap / np.sqrt(variance))) if variance > 0 else 1.0
