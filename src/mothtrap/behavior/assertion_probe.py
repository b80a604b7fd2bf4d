"""Probe of one assertion on held-out rows: how often, and where, predictions break it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mothtrap.behavior.answers import merged
from mothtrap.behavior.assertion import Assertion, Mask
from mothtrap.behavior.confirm import binomial_above, mean_above
from mothtrap.behavior.gaps import Gap, gap_in
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.reading import Floats
from mothtrap.behavior.segments import Segment, search
from mothtrap.behavior.subject import Judged, Subject
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import ASSERTION, EvidenceValue, Severity

LEAST_RATIO = 2.0
"""Rate of failing rows in a segment, against the rate elsewhere; chosen by hand."""
P_LIMIT = 1e-4
"""Chance of such a segment if failing rows were anywhere; chosen by hand."""
P_LOSS = 1e-3
"""p-value for a change of the loss by the correction; chosen by hand."""


@dataclass(frozen=True)
class AssertionHolds(Probe):
    """A user's assertion does not hold."""

    assertion: ClassVar[Assertion]

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Check the predictions of all held-out rows."""
        table, own = subject.table, self.assertion
        answer = subject.answer(table)
        failing_R = ~own.holds(table.data, answer, lambda rows: subject.answer_to(rows))
        count = int(failing_R.sum())
        if not count:
            return
        text = (
            f"{count:,} of {len(table):,} predictions ({percent(count / len(table), 2)}) break the "
            f"assertion {own.name}"
        )
        evidence: dict[str, EvidenceValue] = {
            ASSERTION: own.name,
            "n": len(table),
            "value": count / len(table),
            "reference": 0.0,
        }
        segment = _segment(subject, failing_R.astype(float))
        features: tuple[str, ...] = ()
        if segment is not None:
            features = segment[0].columns
            evidence["where"] = str(segment[0])
            text += (
                f"; {percent(segment[1].inside, 1)} of the rows where {segment[0]}, elsewhere "
                f"{percent(segment[1].outside, 1)}"
            )
        severity = own.severity
        if own.correction is not None:
            effect = _Effect(subject, own, answer, failing_R)
            text += f"; {effect.in_words}"
            evidence |= effect.evidence
            if effect.harms and severity is Severity.INFO:
                severity = Severity.WARNING
        yield Suspicion(
            message=text,
            features=features,
            rows=subject.judged.rows_R[failing_R],
            evidence=evidence,
            severity=severity,
            exact=True,
        )


class _Effect:
    """Effect of a correction on the loss of the failing rows."""

    def __init__(self, subject: Subject, own: Assertion, answer: Any, failing_R: Mask) -> None:
        assert own.correction is not None
        judged = subject.judged
        corrected = merged(answer, own.correction(subject.table.data, answer), failing_R)
        after = Judged(
            judged.table,
            judged.target_R,
            subject.reading.scores(corrected),
            subject.reading,
            judged.rows_R,
            subject.options.loss,
        )
        gain_R: Floats = judged.loss_R - after.loss_R
        changed_R = gain_R[gain_R != 0]  # the zeros of all other rows would hide a clear effect
        self.helps = gain_R.mean() > 0 and _p_above_0(changed_R) < P_LOSS
        self.harms = gain_R.mean() < 0 and _p_above_0(-changed_R) < P_LOSS
        self.before, self.after = float(judged.loss_R.mean()), float(after.loss_R.mean())

    @property
    def in_words(self) -> str:
        """Describe the effect of the correction on the loss."""
        values = f"from {self.before:.3g} to {self.after:.3g}"
        if self.harms:
            return f"its correction raises the mean loss {values}: do not use it"
        if self.helps:
            return f"its correction lowers the mean loss {values}"
        return f"its correction changes the mean loss {values}, which may be chance"

    @property
    def evidence(self) -> dict[str, EvidenceValue]:
        """Mean loss without and with the correction, and whether the correction helps."""
        verdict = "harms" if self.harms else "helps" if self.helps else "unclear"
        return {"loss": self.before, "corrected_loss": self.after, "correction": verdict}


def _p_above_0(value_R: Floats) -> float:
    """Return the p-value of values above 0: by their mean, or by their signs if a few are huge."""
    by_mean = mean_above(value_R)[0]
    by_sign = binomial_above(int((value_R > 0).sum()), len(value_R), 0.5)
    return min(1.0, 2 * min(by_mean, by_sign))


def assertion_probes(assertions: Sequence[Assertion]) -> tuple[Probe, ...]:
    """Return a probe for each assertion.

    Raises:
        ConfigError: two assertions have the same code, or one has the code of a probe.
    """
    from mothtrap.behavior.installed_probes import probe_classes

    found: dict[str, Probe] = {}
    taken = {probe.code for probe in probe_classes()}
    for each in assertions:
        if not isinstance(each, Assertion):
            raise ConfigError(f"{each!r} is not an assertion; decorate it with @mothtrap.assertion")
        if each.code in found or each.code in taken:
            raise ConfigError(f"the assertion {each.name} has the code {each.code}, already in use")
        made = type(
            each.name,
            (AssertionHolds,),
            {
                "code": each.code,
                "called": each.name,
                "severity": each.severity,
                "assertion": each,
                "__doc__": inspect.getdoc(each.check) or "",
                "__module__": __name__,
            },
        )
        found[each.code] = made()
    return tuple(found.values())


def _segment(subject: Subject, failing_R: Floats) -> tuple[Segment, Gap] | None:
    """Return the segment in which failing rows are concentrated, if the other half confirms it."""

    def is_enough(mask_R: Mask) -> bool:
        inside, outside = (float(proposed_R[m].mean()) for m in (mask_R, ~mask_R))
        return inside >= LEAST_RATIO * outside

    proposed_R = failing_R[subject.propose_R]
    table = subject.table.take(subject.propose_R)
    spend = subject.budget.spend
    for candidate in search(table, proposed_R, most=1, is_enough=is_enough, spend=spend):
        gap = gap_in(subject, candidate.segment, failing_R)
        if gap.p < P_LIMIT and gap.ratio >= LEAST_RATIO:
            return candidate.segment, gap
    return None
