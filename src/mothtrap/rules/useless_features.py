"""TRE912: columns carry no information."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class UselessFeatures(Rule):
    """Columns carry no information.

    What it detects:
        Columns without any value, with one value in all rows, or equal to another column.

    Why it matters:
        Such a column often comes from a join that matched no rows, a failed conversion, or a
        filled column that was split later. No library reports it.

    Fires:
        Warning when a column has no value in any row, or when more than `share` of the columns, and
        at least `columns`, have one value or are copies; otherwise info.

    Stays quiet:
        With fewer than `rows` inspected rows.

    What to do:
        - Check how the column is computed: the key of a join, the name of a field, a type
          conversion that turns text into NaN.
        - Drop the column: `x.drop(columns=[...])`.

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
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        seen, table = one.columns, one.tables.get("")
        if seen is None or table is None:
            raise NotEnoughData("the columns were not inspected")
        if seen.looked_at < self.rows:
            raise NotEnoughData(f"needs {self.rows} rows, saw {seen.looked_at}")
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
                (copies, "equal to another column"),
            )
            if names
        ]
        return self.finding(
            window,
            severity=Severity.WARNING if empty or many else Severity.INFO,
            step=one.began.step,
            layers=useless[:1],
            message=f"useless columns among {seen.columns}: {'; '.join(parts)}",
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
