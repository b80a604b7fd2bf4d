"""TRE906: a row identifier is used as a feature."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen, FeatureGains
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class IdentifierFeature(Rule):
    """A row identifier is used as a feature.

    What it detects:
        A column of unique integers that fill most of their range: an index, a customer number, a
        counter. Trees that split on it memorize rows.

    Why it matters:
        If the rows are stored in an order (by class, time, or source), their number reveals the
        label. New rows have numbers that no tree has seen.

    Fires:
        Warning when the identifier has more than `share` of the gain of all splits; a note when
        it is a column but hardly used.

    Stays quiet:
        With fewer than `rows` rows. For columns declared categorical. For fractions.

    What to do:
        - Drop the column: `x.drop(columns=["id"])`, or read the table with `index_col=0`.
        - If it encodes time, split training and evaluation by it, and use features derived from
          time (age, weekday) instead.

    Example:
        x = frame.drop(columns=["target"])             # has `customer_id`
        x = frame.drop(columns=["target", "customer_id"])

    References:
        Kaufman et al. 2012, Leakage in data mining, https://doi.org/10.1145/2382577.2382579
    """

    code = "TRE906"
    needs = (Need(facts=(BoostingBegan, ColumnsSeen, FeatureGains)), OF_BOOSTED)
    explains = (
        "single_feature_dominates",
        "stopped_too_late",
        "overfit",
        "eval_table_differs",
    )
    share: float = threshold(0.02, unit="of the gain of all splits", source="chosen by hand")
    rows: int = threshold(100, unit="rows", source="chosen by hand: with fewer it may be chance")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if one.columns is None or one.gains is None:
            raise NotEnoughData("no columns or no splits were recorded")
        if one.columns.looked_at < self.rows:
            raise NotEnoughData(f"needs {self.rows} rows, saw {one.columns.looked_at}")
        share = dict(zip(one.gains.features, one.gains.shares, strict=True))
        used = sorted(one.columns.identifiers, key=lambda name: -share.get(name, 0.0))
        if not used:
            return None
        name = used[0]
        value = share.get(name, 0.0)
        return self.finding(
            window,
            severity=Severity.WARNING if value > self.share else Severity.INFO,
            step=one.began.step,
            layers=(name,),
            message=(
                f"column {name} looks like a row identifier: its integers are unique and fill "
                f"their range; it accounts for {value:.1%} of the gain of all splits (limit "
                f"{self.share:.0%})"
            ),
            evidence={"value": value, "limit": self.share, "feature": name, "fit": one.began.fit},
            location=one.began.location,
        )
