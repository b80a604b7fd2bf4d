"""BEH101: columns that the model ignores."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.effects import changes_output
from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

MAX_COLUMNS = 200


@frozen
class InputWithoutEffect(Probe):
    """Some columns have no effect on the output.

    What it detects:
        Columns whose values can be permuted three times among 2,000 rows without any change in the
        output.

    Why it matters:
        The model ignores the column: it was lost in preprocessing, its name or type does not
        match, or it is useless.

    Fires:
        When all outputs stay equal. A note; a warning for columns named in `expect_used`.

    Stays quiet:
        Columns with a single value.

    What to do:
        - If the column should matter, check that it reaches the model under this name and type.
        - Otherwise leave the column out.
    """

    code = "BEH101"
    severity = Severity.INFO

    times: int = threshold(3, unit="permutations", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Permute each column."""
        subject.require_columns()
        rows, rng = subject.table.take(subject.asked), subject.rng("permuted")
        before = subject.ask(rows)
        unused = []
        for column in rows.columns[:MAX_COLUMNS]:
            if column.distinct() + column.missing_R.any() > 1 and not any(
                changes_output(subject, rows, column.name, before, rng) for _ in range(self.times)
            ):
                unused.append(column.name)
        for names, severity in (
            ([n for n in unused if n in subject.options.expect_used], Severity.WARNING),
            ([n for n in unused if n not in subject.options.expect_used], None),
        ):
            if names:
                yield Suspicion(
                    message=f"{len(names)} of {len(rows.columns)} columns "
                    f"{'have' if len(names) > 1 else 'has'} no effect on the output: "
                    + ", ".join(names[:10])
                    + (f" and {len(names) - 10} more" if len(names) > 10 else ""),
                    features=tuple(names),
                    severity=severity,
                    exact=True,
                    evidence={"n": len(rows), "value": len(names)},
                )
