"""TRE905: the metric or the class weights ignore a rare class."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.metrics import ERROR_RATES, kind
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class UnscaledWeights(Rule):
    """The metric or the class weights ignore a rare class.

    What it detects:
        A classifier with unequal classes and equal row weights that is evaluated by its error rate,
        or that rarely predicts the rare class. Weights that make the rare class count even less.

    Why it matters:
        If 1 of 200 rows is positive, a model that always predicts the negative class is right in
        99.5 % of the rows. The metric shows success from the first round on, and early stopping
        keeps that model.

    Fires:
        Warning when the rarest class has less than `share` of at least `rows` training rows, all
        metrics are error rates, and neither rows nor classes are weighted. Also when it has less
        than `rare` of the rows and the final model finds less than `recall` of its rows in an
        evaluation (with at least `seen` of them), and when `scale_pos_weight` is below 1 although
        the positive class is that rare.

    Stays quiet:
        When a ranking metric (`auc`, `aucpr`, `ndcg`) or a loss (`logloss`) is evaluated, too, and
        the rare class is found. When rows have weights or `scale_pos_weight` is set.

    What to do:
        - XGBoost: Evaluate with a ranking metric: `eval_metric="aucpr"`.
        - LightGBM: Evaluate with a ranking metric: `metric="average_precision"`.
        - CatBoost: Evaluate with a ranking metric: `eval_metric="PRAUC"`.
        - XGBoost: Weight the rare class: `scale_pos_weight=negatives / positives`, or `DMatrix(x,
          y, weight=...)` with more than two classes.
        - LightGBM: Weight the rare class: `is_unbalance=True`, or `scale_pos_weight=negatives /
          positives`.
        - CatBoost: Weight the rare class: `auto_class_weights="Balanced"`.
        - scikit-learn: Weight the rare class: `class_weight="balanced"`, or `sample_weight` of
          `fit`.

    Example:
        XGBClassifier(eval_metric="error").fit(x, y, eval_set=[(xv, yv)])
        XGBClassifier(eval_metric="aucpr", scale_pos_weight=199).fit(x, y, eval_set=[(xv, yv)])

    References:
        Davis and Goadrich 2006, The relationship between precision-recall and ROC curves, ICML
    """

    code = "TRE905"
    needs = (Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED)
    explains = ("class_imbalance",)

    rare: float = threshold(0.15, unit="of the training rows", source="chosen by hand")
    recall: float = threshold(0.2, unit="of the rows of a class", source="chosen by hand")
    seen: int = threshold(10, unit="rows of the class in an evaluation", source="chosen by hand")
    share: float = threshold(0.01, unit="of the training rows", source="chosen by hand")
    rows: int = threshold(500, unit="training rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of a classifier."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        table = one.tables.get("")
        if table is None:
            raise NotEnoughData("the training data were not inspected")
        if table.label_counts is None:
            raise NotApplicable("the model is not a classifier")
        if table.rows < self.rows:
            raise NotApplicable(f"{table.rows} rows are too few to have a rare class")
        present = {label: count for label, count in enumerate(table.label_counts) if count}
        kinds = [kind(name) for name in one.began.metrics]
        if not kinds:
            raise NotApplicable("no evals were passed, so no metric is computed")
        if len(present) < 2:
            raise NotApplicable("all rows belong to one class")
        rarest = min(present, key=lambda label: present[label])
        share = present[rarest] / sum(present.values())
        words = self._words(one, table, rarest, share)
        unweighted = share < self.share and not table.weighted
        if not words and unweighted and all(sort in ERROR_RATES for sort in kinds):
            words = f"no weights are set, and the metric is {', '.join(one.began.metrics)}"
        if not words:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            message=(
                f"{present[rarest]} of {table.rows} rows belong to class {rarest} ({share:.2%}), "
                f"{words}"
            ),
            evidence={
                "value": share,
                "limit": self.share,
                "rarest": rarest,
                "rows": table.rows,
                "metric": one.began.metrics[0],
                "fit": one.began.fit,
            },
            location=one.began.location,
        )

    def _words(self, one: Boosted, table: TableSeen, rarest: int, share: float) -> str:
        """Return the evidence that the rare class is ignored, '' if it is not."""
        if share >= self.rare:
            return ""
        weight = float(one.began.parameters.get("scale_pos_weight") or 1)
        if rarest == 1 and weight < 1:
            return f"and scale_pos_weight is {weight:g}: the class counts even less"
        if table.weighted:
            return ""
        for site in one.held_out:
            seen = one.scores.get(site)
            if seen is None or not seen.last or len(seen.confusion) <= rarest:
                continue
            rows, recall = sum(seen.confusion[rarest]), seen.recall[rarest]
            if rows >= self.seen and recall < self.recall:
                return f"no weights are set, and only {recall:.0%} of {rows} in {site} are detected"
        return ""
