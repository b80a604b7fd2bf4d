"""TRE905: the metric or the class weights ignore a rare class."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.found import Found
from mothtrap.core.metrics import ERROR_RATES, kind
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, number_of

MINORITY, SWAPPED = 0.4, 3.0
"""Share of the rows up to which a class counts as the smaller one, and the factor within which its
weight equals the inverse of the balancing weight; chosen by hand."""


@rule(
    "TRE905",
    needs=[Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED],
    explains=("class_imbalance",),
)
def unscaled_weights(
    window: Window,
    *,
    rare: float = threshold(0.15, unit="of the training rows", source="chosen by hand"),
    recall: float = threshold(0.2, unit="of the rows of a class", source="chosen by hand"),
    seen: int = threshold(10, unit="rows of the class in an evaluation", source="chosen by hand"),
    share: float = threshold(0.01, unit="of the training rows", source="chosen by hand"),
    rows: int = threshold(500, unit="training rows", source="chosen by hand"),
    excess: float = threshold(
        20.0, unit="times the weight of all other rows", source="chosen by hand"
    ),
) -> list[Found]:
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
        the positive class is that rare. Also when `scale_pos_weight` gives the positive class, in
        total, more than `excess` times the weight of all other rows, or is the inverse of the
        weight that balances the classes.

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

    def judge(one: Boosted) -> Found | None:
        table = one.tables.get("")
        if table is None:
            raise NotEnoughData("the training data were not inspected")
        if table.label_counts is None:
            raise NotApplicable("the model is not a classifier")
        if table.rows < rows:
            raise NotApplicable(f"{table.rows} rows are too few to have a rare class")
        present = {label: count for label, count in enumerate(table.label_counts) if count}
        kinds = [kind(name) for name in one.began.metrics]
        if not kinds:
            raise NotApplicable("no evals were passed, so no metric is computed")
        if len(present) < 2:
            raise NotApplicable("all rows belong to one class")
        rarest = min(present, key=lambda label: present[label])
        part = present[rarest] / sum(present.values())
        words = _ignored(one, table, rarest, recall, seen) if part < rare else ""
        words = words or _excess(one, table, present, excess)
        words = words or _inverted(one, present, part)
        unweighted = part < share and not table.weighted
        if not words and unweighted and all(sort in ERROR_RATES for sort in kinds):
            words = f"no weights are set, and the metric is {', '.join(one.began.metrics)}"
        if not words:
            return None
        return Found.of(
            one.began,
            f"{present[rarest]} of {table.rows} rows belong to class {rarest} ({part:.2%}), "
            f"{words}",
            evidence={
                "value": part,
                "limit": share,
                "rarest": rarest,
                "rows": table.rows,
                "metric": one.began.metrics[0],
                "fit": one.began.fit,
            },
        )

    return judge_each(window, judge)


def _inverted(one: Boosted, present: dict[int, int], part: float) -> str:
    """Describe a `scale_pos_weight` of positives / negatives (the inverse), or return ""."""
    weight = number_of(one.began, "scale_pos_weight")
    if set(present) != {0, 1} or part > MINORITY or not 0 < weight < 1:
        return ""
    balance = present[0] / present[1]
    if balance < 1 or not 1 / SWAPPED <= weight * balance <= SWAPPED:
        return ""
    return (
        f"but scale_pos_weight is {weight:.3g}, so the rarer class counts even less; "
        f"{balance:.3g} (negatives / positives) balances the classes"
    )


def _excess(one: Boosted, table: TableSeen, present: dict[int, int], excess: float) -> str:
    """Describe a class weight so large that the other class hardly counts, or return ""."""
    if set(present) != {0, 1}:
        return ""
    weight = number_of(one.began, "scale_pos_weight") or 1.0
    by_class = table.class_weights if len(table.class_weights) == 2 else (1.0, 1.0)
    if min(by_class) <= 0:
        return ""
    times = weight * by_class[1] * present[1] / (by_class[0] * present[0])
    if times < 1 / excess and by_class[0] > excess * by_class[1]:
        return (
            f"but the weights are {by_class[0]:.3g} for class 0 and {by_class[1]:.3g} for class 1, "
            f"so class 0 counts {1 / times:.3g} times as much as class 1 (limit {excess:g})"
        )
    if times <= excess:
        return ""
    if weight == 1:
        return (
            f"but the weights are {by_class[0]:.3g} for class 0 and {by_class[1]:.3g} for class 1, "
            f"so class 1 counts {times:.3g} times as much as class 0 (limit {excess:g})"
        )
    return (
        f"but scale_pos_weight is {weight:g}, so class 1 counts {times:.3g} times as much as class "
        f"0 (limit {excess:g}); {present[0] / present[1]:.3g} balances the classes"
    )


def _ignored(one: Boosted, table: TableSeen, rarest: int, recall: float, rows: int) -> str:
    """Return the evidence that the rare class is ignored, '' if it is not."""
    weight = float(one.began.parameters.get("scale_pos_weight") or 1)
    if rarest == 1 and weight < 1:
        return f"and scale_pos_weight is {weight:g}: the class counts even less"
    if table.weighted:
        return ""
    for site in one.held_out:
        scores = one.scores.get(site)
        if scores is None or not scores.last or len(scores.confusion) <= rarest:
            continue
        count, part = sum(scores.confusion[rarest]), scores.recall[rarest]
        if count >= rows and part < recall:
            return f"no weights are set, and only {part:.0%} of {count} in {site} are detected"
    return ""
