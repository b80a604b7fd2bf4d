"""BEH601: the new rows are distributed differently than the training rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.behavior.effects import changes_output
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.shifts import Shift, kolmogorov, shift_of
from mothtrap.behavior.sklearn.domains import domain_score
from mothtrap.behavior.subject import ASKED_ROWS, NewRows, Subject
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

LEAST_ROWS = 100
NAMED = 5
"""Columns that a message describes; chosen by hand."""


@frozen
class Drifted(Probe):
    """The new rows differ from the training rows.

    What it detects:
        Columns that are distributed differently in the new rows than in the training rows, or the
        held-out rows if there are no training rows. Also outputs that are distributed differently
        than for the held-out rows. If no column differs, a boosted model tries to distinguish the
        two groups of rows.

    Why it matters:
        Scores that were measured before are not valid for rows of a different kind.

    Fires:
        When the Kolmogorov distance (numbers), the total variation distance (categories), or the
        difference between the shares of missing values is above 0.1, with a p-value below 1e-6
        divided by the number of columns. Also when the lower bound of the AUC of the boosted model
        is above 0.6. A note for columns that have no effect on the output.
    Stays quiet:
        Small differences, even if they are significant. Fewer than 100 new rows.

    What to do:
        - Compare how the columns are measured, encoded, and filled now and at training time.
        - Score the model on new rows with targets, and retrain it if it has become worse.

    References:
        Rabanser et al., Failing loudly, 2019; Lopez-Paz and Oquab, Revisiting classifier two-sample
        tests, 2017.
    """

    code = "BEH601"
    severity = Severity.WARNING
    explains = ("loss_rose", "segment_grew", "anomalous_rows")
    cost = 2
    needs_new = True

    least: float = threshold(0.1, unit="distance", source="chosen by hand")
    p_limit: float = threshold(1e-6, unit="p-value, for all columns", source="chosen by hand")
    least_auc: float = threshold(0.6, unit="AUC", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare columns, outputs, and all columns together."""
        new = subject.new
        assert new is not None
        if len(new) < LEAST_ROWS:
            raise NotEnoughData(f"needs {LEAST_ROWS} new rows, has {len(new)}")
        columns = subject.usual.table.columns
        shifts = [shift_of(column, new.table.column(column.name)) for column in columns]
        limit = self.p_limit / max(len(columns), 1)
        large = [each for each in shifts if each.effect > self.least and each.p < limit]
        large.sort(key=lambda each: -each.effect)
        used = [each for each in large if self._is_used(subject, new, each.name)]
        unused = [each for each in large if each not in used]
        if used:
            yield self._suspicion(used, len(new), Severity.WARNING)
        if unused:
            yield self._suspicion(unused, len(new), Severity.INFO)
        if not used:
            yield from self._of_outputs(subject, new, limit)
        if not large and columns:
            yield from self._together(subject, new)

    def _is_used(self, subject: Subject, new: NewRows, name: str) -> bool:
        some = subject.rng("drift").permutation(len(new))[:ASKED_ROWS]
        rows, rng = new.table.take(some), subject.rng(f"drift {name}")
        return changes_output(subject, rows, name, new.scores[some], rng)

    def _suspicion(self, shifts: list[Shift], rows: int, severity: Severity) -> Suspicion:
        described = [f"{each.name} ({each.words})" for each in shifts[:NAMED]]
        more = f" and {len(shifts) - NAMED} more" if len(shifts) > NAMED else ""
        plural = len(shifts) > 1
        what = f"{len(shifts)} columns differ" if plural else "one column differs"
        unused = ", which has no effect on the output" if severity is Severity.INFO else ""
        if unused and plural:
            unused = ", which have no effect on the output"
        return Suspicion(
            message=f"{what} in the new rows{unused}: {', '.join(described)}{more}; the largest "
            f"distance is {shifts[0].effect:.2f} (limit {self.least:g})",
            p=max(each.p for each in shifts),
            features=tuple(each.name for each in shifts),
            severity=severity,
            evidence={"n": rows, "value": shifts[0].effect, "reference": self.least},
        )

    def _of_outputs(self, subject: Subject, new: NewRows, limit: float) -> Iterator[Suspicion]:
        before_R = subject.output(subject.judged.scores)  # training rows may be memorized
        after_R = subject.output(new.scores)
        effect, p = kolmogorov(before_R, after_R[np.isfinite(after_R)])
        if effect > self.least and p < limit:
            middles = [float(np.median(each)) for each in (before_R, after_R)]
            yield Suspicion(
                message=f"the outputs for the new rows differ: median {middles[0]:.4g} before, "
                f"{middles[1]:.4g} now; the distance is {effect:.2f} (limit {self.least:g})",
                p=p,
                evidence={"n": len(new), "value": effect, "reference": self.least},
            )

    def _together(self, subject: Subject, new: NewRows) -> Iterator[Suspicion]:
        subject.budget.spend()
        found = domain_score(subject.usual.table, new.table, subject.rng("domain"))
        if found.low > self.least_auc:
            named = " and ".join(found.names[:2]) or "many columns"
            yield Suspicion(
                message=f"no single column differs, but a boosted model distinguishes new rows "
                f"with an AUC of {found.auc:.2f} (limit {self.least_auc:g}), by {named} together",
                p=found.p,
                features=found.names,
                evidence={"n": len(new), "value": found.auc, "reference": self.least_auc},
            )
