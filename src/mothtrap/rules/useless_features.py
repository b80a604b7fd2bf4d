"""TRE912: columns say nothing."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@dataclass(frozen=True)
class UselessFeatures(Rule):
    """Columns say nothing.

    What it detects:
        Columns without a value, with one value in all rows, or equal to another column.

    Why it matters:
        Such a column is what is left of a join that found nothing, of a unit that was lost, of a
        column that was filled before it was split off. No library says so.

    Fires:
        Warning when a column has no value in any row, or when more than `share` of the columns,
        and at least `columns`, have one value or are copies; else a note.

    Stays quiet:
        With fewer than `rows` rows looked at.

    What to do:
        - Look at how the column is made: the key of a join, the name of a field, a type that
          turns texts into NaN.
        - Leave the column out: `x.drop(columns=[...])`.

    Example:
        x = orders.join(customers, on="id")            # no key is found: all NaN
        x = orders.join(customers, on="customer_id")

    References:
        Sculley et al. 2015, Hidden technical debt in machine learning systems, NeurIPS
    """

    code = "TRE912"
    needs = (Need(facts=(BoostingBegan, ColumnsSeen, TableSeen)), OF_BOOSTED)
    explains = ()
    rows: int = threshold(100, unit="rows", source="chosen by hand")
    share: float = threshold(0.3, unit="of the columns", source="chosen by hand")
    columns: int = threshold(2, unit="columns", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        seen, table = one.columns, one.tables.get("")
        if seen is None or table is None:
            raise NotEnoughData("the columns were not looked at")
        if seen.looked_at < self.rows:
            raise NotEnoughData(f"{seen.looked_at} rows are few, {self.rows} are needed")
        empty = seen.empty
        fixed = tuple(name for name in table.constant or () if name not in empty)
        copies = tuple(copy for _, copy in seen.copies)
        useless = (*empty, *fixed, *copies)
        if not useless:
            return None
        many = len(useless) >= max(self.columns, self.share * seen.columns)
        parts = [
            f"{len(names)} {words} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})"
            for names, words in (
                (empty, "without a value"),
                (fixed, "with one value in all rows"),
                (copies, "equal to another one"),
            )
            if names
        ]
        return self.finding(
            window,
            severity=Severity.WARNING if empty or many else Severity.INFO,
            step=one.began.step,
            layers=useless[:1],
            message=f"of {seen.columns} columns: {'; '.join(parts)}",
            evidence={
                "value": len(useless) / seen.columns,
                "limit": self.share,
                "empty": len(empty),
                "constant": len(fixed),
                "copies": len(copies),
                "fit": one.began.fit,
            },
            location=one.began.location,
        )
