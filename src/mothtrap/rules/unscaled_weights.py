"""TRE905: a rare class counts for nothing in the metric or in the weights."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

ERROR_RATES = ("error", "merror")
"""Metrics that count rows that are wrong, each for one."""


@dataclass(frozen=True)
class UnscaledWeights(Rule):
    """A rare class counts for nothing in the metric or in the weights.

    What it detects:
        A classifier of very unequal classes that is judged by its error rate, and whose rows
        all have the same weight.

    Why it matters:
        With 1 of 200 rows positive, a model that always says no is right in 99.5 %. The metric
        shows success from the first round on, and stopping by it keeps that model.

    Fires:
        Warning when the rarest class has less than `share` of at least `rows` rows of training,
        all metrics are error rates, and neither rows nor classes are weighted.

    Stays quiet:
        Where a metric that ranks (`auc`, `aucpr`, `ndcg`) or a loss (`logloss`) is evaluated,
        too; where rows have weights or `scale_pos_weight` is set.

    What to do:
        - Judge by a metric that ranks: `eval_metric="aucpr"`.
        - Weigh the rare class: `scale_pos_weight=negatives / positives`, or
          `DMatrix(x, y, weight=...)` with more than two classes.

    Example:
        XGBClassifier(eval_metric="error").fit(x, y, eval_set=[(xv, yv)])
        XGBClassifier(eval_metric="aucpr", scale_pos_weight=199).fit(x, y, eval_set=[(xv, yv)])

    References:
        Davis and Goadrich 2006, The relationship between precision-recall and ROC curves, ICML
    """

    code = "TRE905"
    needs = (Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED)
    explains = ("class_imbalance",)

    share: float = threshold(0.01, unit="of the rows of training", source="chosen by hand")
    rows: int = threshold(500, unit="rows of training", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of a classifier."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        table = one.tables.get("")
        if table is None:
            raise NotEnoughData("the training data were not looked at")
        if table.label_counts is None:
            raise NotApplicable("the model is no classifier")
        if table.rows < self.rows:
            raise NotApplicable(f"{table.rows} rows are too few to have a rare class")
        present = {label: count for label, count in enumerate(table.label_counts) if count}
        metrics = [name.partition("@")[0] for name in one.began.metrics]
        if not metrics:
            raise NotApplicable("no evals: the library computes no metric")
        if len(present) < 2:
            raise NotApplicable("all rows are of one class")
        rarest = min(present, key=lambda label: present[label])
        share = present[rarest] / sum(present.values())
        if share >= self.share or table.weighted or any(m not in ERROR_RATES for m in metrics):
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            message=(
                f"{present[rarest]} of {table.rows} rows are of class {rarest} ({share:.2%}, limit "
                f"{self.share:.0%}), no weights are set, and the metric is {', '.join(metrics)}"
            ),
            evidence={
                "value": share,
                "limit": self.share,
                "rarest": rarest,
                "rows": table.rows,
                "metric": metrics[0],
                "fit": one.began.fit,
            },
            location=one.began.location,
        )
