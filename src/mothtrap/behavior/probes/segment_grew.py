"""BEH602: more of the new rows belong to a segment in which the model is weak."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.confirm import binomial_above
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.probes.weak_segment import weak_segments
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class SegmentGrew(Probe):
    """A segment in which the model is weak has grown.

    What it detects:
        A weak segment (BEH201) whose share is larger in the new rows than in the held-out rows.

    Why it matters:
        The model gets worse although it has not changed, because there are more rows of the kind
        that it predicts badly.

    Fires:
        When the share has at least doubled, with a p-value below 1e-6.

    Stays quiet:
        Segments on columns that the new rows do not have.

    What to do:
        - Collect training rows of the segment, and retrain the model.
        - Until then, send the rows of the segment to a person or to another model.

    References:
        Chung et al., Slice Finder, 2019.
    """

    code = "BEH602"
    severity = Severity.WARNING
    explains = ("loss_rose",)
    cost = 3
    needs_new = True

    least_ratio: float = threshold(2.0, unit="times the share before", source="chosen by hand")
    p_limit: float = threshold(1e-6, unit="p-value", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare the shares of weak segments."""
        new = subject.new
        assert new is not None
        found = weak_segments(subject)
        if not found:
            raise NotApplicable("no weak segment was found")
        known = set(new.table.names)
        for segment, gap in found:
            if not known.issuperset(segment.columns):
                continue
            mask_R = segment.mask(new.table)
            before = max(float(segment.mask(subject.table).mean()), 1 / len(subject.table))
            after = float(mask_R.mean())
            p = binomial_above(int(mask_R.sum()), len(mask_R), min(before, 1.0))
            if after < self.least_ratio * before or p >= self.p_limit:
                continue
            errors = [gap.outside + share * (gap.inside - gap.outside) for share in (before, after)]
            yield Suspicion(
                message=f"the weak segment {segment} has {percent(after, 1)} of the new rows, "
                f"up from {percent(before, 1)}; this alone raises the mean error from "
                f"{errors[0]:.3g} to {errors[1]:.3g}",
                p=p,
                features=segment.columns,
                rows=new.rows_R[mask_R],
                evidence={"n": len(mask_R), "value": after, "reference": before},
            )
