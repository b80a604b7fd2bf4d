"""TRE909: trees have only one leaf."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TreesGrown
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

LIMITS = {
    "min_child_weight": 1.0,
    "gamma": 0.0,
    "min_split_loss": 0.0,
    "reg_lambda": 1.0,
    "min_data_in_leaf": 20.0,
    "min_sum_hessian_in_leaf": 0.001,
    "min_gain_to_split": 0.0,
    "lambda_l2": 0.0,
    "lambda_l1": 0.0,
    "reg_alpha": 0.0,
    "max_delta_step": 0.0,
}
"""Parameters that prevent splits, with the libraries' defaults."""

SAME_LABELS = "Check how the labels are read, converted and split: they must differ."


@frozen
class TreeNotGrowing(Rule):
    """Trees have only one leaf.

    What it detects:
        Rounds whose trees have no split, and the parameter that prevents splits.

    Why it matters:
        A tree of one leaf predicts the same number for every row. LightGBM warns "no further splits
        with positive gain" in each round; the other libraries are silent.

    Fires:
        Error when `share` of the trees of the first `rounds` rounds have one leaf: the model is a
        constant. Warning when trees stop growing later, and `rounds` rounds without a split follow.
        If all labels are equal, the message says so.

    Stays quiet:
        Before `rounds` rounds. When the training loss cannot improve further.

    What to do:
        - XGBoost: Lower the requirements for a split: `min_child_weight` and `gamma`.
        - LightGBM: Lower the requirements for a split: `min_data_in_leaf`,
          `min_sum_hessian_in_leaf`, `min_gain_to_split`.
        - scikit-learn: Lower the requirements for a split: `min_samples_leaf`,
          `min_impurity_decrease`.
        - Check the scale of labels and weights: these limits are absolute.

    Example:
        xgboost.train({"min_child_weight": 1000}, table_of_500_rows)
        xgboost.train({"min_child_weight": 1}, table_of_500_rows)

    References:
        https://github.com/lightgbm-org/LightGBM/issues/4649
    """

    code = "TRE909"
    needs = (Need(facts=(BoostingBegan, TreesGrown)), OF_BOOSTED)
    explains = (
        "loss_not_decreasing",
        "overtraining",
        "stopped_too_late",
        "boosting_rate_too_low",
        "class_imbalance",
        "unscaled_weights",
        "nothing_learned",
        "loss_unchanged",
        "evaluation_unchanged",
    )
    rounds: int = threshold(10, unit="rounds with recorded trees", source="chosen by hand")
    share: float = threshold(0.9, unit="of the trees", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        grown = one.trees
        if len(grown) < self.rounds:
            raise NotEnoughData(f"needs the trees of {self.rounds} rounds")
        first, last = grown[: self.rounds], grown[-self.rounds :]
        if sum(tree.leaves <= 1 for tree in first) >= self.share * len(first):
            severity, since = Severity.ERROR, first[0]
        elif len(grown) > self.rounds and all(tree.leaves <= 1 for tree in last):
            severity, since = Severity.WARNING, last[0]
        else:
            return None
        table = one.tables.get("")
        same = table is not None and table.label_distinct == 1 and table.label_min is not None
        why = "no split is allowed, or no split improves the loss"
        if table is not None and same:
            why = f"all labels of the training data are {table.label_min:g}"
        limits = "" if same else self._limits(one)
        return self.finding(
            window,
            severity=severity,
            step=since.step,
            last_step=grown[-1].step,
            count=sum(tree.leaves <= 1 for tree in grown),
            message=(
                f"trees have had only one leaf since round {since.round}: with {since.rows} rows, "
                f"{why}" + (f" and {limits}" if limits else "")
            ),
            fixes=(SAME_LABELS,) if same else None,
            evidence={"round": since.round, "rows": since.rows, "fit": one.began.fit},
            location=one.began.location,
        )

    def _limits(self, one: Boosted) -> str:
        found = []
        for name, usual in LIMITS.items():
            try:
                value = float(one.began.parameters.get(name, "0"))
            except ValueError:
                continue
            if value > usual:
                found.append(f"{name} {value:g}")
        return ", ".join(found)
