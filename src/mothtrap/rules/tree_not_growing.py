"""TRE909: trees have only one leaf."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TreesGrown
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, number_of

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

MIN_SAMPLE, EXTREME, MIN_HESSIAN_SUM, LIGHT = 40, 1e-4, 2.0, 0.1
"""Rows per tree, distance of the first probability from 0 or 1, sum of the hessians, and weight of
the positive class or of all rows, below which usual settings allow no split; chosen by hand."""
AT_END = 3
"""Rounds without a split that are enough after the end of training; chosen by hand."""
HESSIAN = 0.25
"""Largest hessian of a row of weight 1, for two classes."""
HESSIAN_LIMITS = ("min_child_weight", "min_sum_hessian_in_leaf")
"""Smallest sum of hessians of a leaf, in XGBoost and LightGBM."""
SAME_LABELS = "Check how the labels are read, converted and split: they must differ."


@rule(
    "TRE909",
    needs=[Need(facts=(BoostingBegan, TreesGrown)), OF_BOOSTED],
    explains=(
        "loss_not_decreasing",
        "overtraining",
        "stopped_too_late",
        "boosting_rate_too_low",
        "class_imbalance",
        "unscaled_weights",
        "nothing_learned",
        "loss_unchanged",
        "evaluation_unchanged",
        "constant_prediction",
    ),
)
def tree_not_growing(
    window: Window,
    *,
    rounds: int = threshold(10, unit="rounds with recorded trees", source="chosen by hand"),
    share: float = threshold(0.9, unit="of the trees", source="chosen by hand"),
    stumps: float = threshold(2.5, unit="leaves of a tree, on average", source="chosen by hand"),
    allowed: int = threshold(
        6, unit="leaves that the depth allows", source="chosen by hand: stumps may be intended"
    ),
) -> list[Found]:
    """Trees have only one leaf.

    What it detects:
        Rounds whose trees have no split, or hardly any, and the parameter that prevents splits.

    Why it matters:
        A tree of one leaf predicts the same number for every row. LightGBM warns "no further splits
        with positive gain" in each round; the other libraries are silent.

    Fires:
        Error when `share` of the trees of the first `rounds` rounds have one leaf: the model is a
        constant. Warning when trees stop growing later, and `rounds` rounds without a split follow.
        If all labels are equal, the message says so. Warning at the end of training when the trees
        have fewer than `stumps` leaves on average, depth and number of leaves allow at least
        `allowed`, and a parameter that prevents splits is above its default, or each tree is grown
        on few rows.

    Stays quiet:
        Before `rounds` rounds, or before the end of a training of at least 3 rounds. When the
        training loss cannot improve further.

    What to do:
        - XGBoost: Lower the requirements for a split: `min_child_weight` and `gamma`.
        - LightGBM: Lower the requirements for a split: `min_data_in_leaf`,
          `min_sum_hessian_in_leaf`, `min_gain_to_split`.
        - scikit-learn: Lower the requirements for a split: `min_samples_leaf`,
          `min_impurity_decrease`.
        - Check the scale of labels and weights: these limits are absolute.
        - Train each tree on more rows: `subsample=0.8` (`bagging_fraction` in LightGBM).
        - Remove `base_score`: by default, the library starts with the share of the positive class.
        - Scale row weights to a mean of 1: `min_child_weight` limits the sum of weights of a leaf.
        - Return the gradients and hessians of each row, not divided by the number of rows.

    Example:
        xgboost.train({"min_child_weight": 1000}, table_of_500_rows)
        xgboost.train({"min_child_weight": 1}, table_of_500_rows)

    References:
        https://github.com/lightgbm-org/LightGBM/issues/4649
    """

    def judge(one: Boosted) -> Found | None:
        grown = one.trees
        over = one.ended is not None and AT_END <= len(grown) == one.rounds
        if len(grown) < rounds and not over:
            raise NotEnoughData(f"needs the trees of {rounds} rounds")
        first, last = grown[:rounds], grown[-rounds:]
        if sum(tree.leaves <= 1 for tree in first) >= share * len(first):
            severity, since = Severity.ERROR, first[0]
        elif len(grown) > rounds and all(tree.leaves <= 1 for tree in last):
            severity, since = Severity.WARNING, last[0]
        else:
            return _hardly_growing(one, stumps, allowed) if one.ended is not None else None
        table = one.tables.get("")
        same = table is not None and table.label_distinct == 1 and table.label_min is not None
        why = "no split is allowed, or no split improves the loss"
        if table is not None and same:
            why = f"all labels of the training data are {table.label_min:g}"
        elif limits := _limits(one, since.rows):
            why = f"{why}, with {limits}"
        return Found.of(
            [since, grown[-1]],
            f"trees have had only one leaf since round {since.round}: with {since.rows} rows, "
            f"{why}",
            severity=severity,
            count=sum(tree.leaves <= 1 for tree in grown),
            fixes=(SAME_LABELS,) if same else _fixes(one, since.rows),
            evidence={"round": since.round, "rows": since.rows, "fit": one.began.fit},
            location=one.began.location,
        )

    return judge_each(window, judge)


def _hardly_growing(one: Boosted, stumps: float, allowed: int) -> Found | None:
    """Return the finding about trees that a parameter keeps from growing after a first split."""
    began, grown = one.began, one.trees
    depth, most = began.max_depth, began.max_leaves
    leaves = min(most or math.inf, 2.0**depth if depth else math.inf)
    mean = sum(tree.leaves for tree in grown) / max(1, len(grown))
    if len(grown) < AT_END or mean > stumps or leaves < allowed:
        return None
    if not _raised(one) and not _few_rows(one, grown[0].rows):
        return None
    room = f", though {leaves:g} are allowed" if leaves < math.inf else ""
    return Found.of(
        [grown[0], grown[-1]],
        f"trees have {mean:.2g} leaves on average (limit {stumps:g}){room}, with "
        f"{_limits(one, grown[0].rows)}",
        severity="warning",
        title="trees hardly grow",
        count=len(grown),
        fixes=_fixes(one, grown[0].rows),
        evidence={"value": mean, "limit": stumps, "rows": grown[0].rows, "fit": began.fit},
        location=began.location,
    )


def _fixes(one: Boosted, rows: int) -> tuple[int | str, ...]:
    """Return the fixes for the most likely cause, or their positions."""
    if _few_rows(one, rows):
        return (4,)
    if _extreme_start(one):
        return (5,)
    if _is_light(one):
        return ("Set `scale_pos_weight` to the number of negatives / number of positives.",)
    if _light_rows(one):
        return (6,)
    if raised := _raised(one):
        return tuple(
            f"Lower `{name}` from {value:g}; the default is {LIMITS[name]:g}."
            for name, value in raised.items()
        )
    return (7, 3) if one.gradients is not None else (0, 1, 2, 3)


def _is_light(one: Boosted) -> bool:
    """Return whether the positive class has nearly no weight."""
    return 0 < number_of(one.began, "scale_pos_weight") < LIGHT


def _raised(one: Boosted) -> dict[str, float]:
    """Return the parameters above their defaults that prevent splits."""
    values = {name: number_of(one.began, name) for name in LIMITS}
    return {name: value for name, value in values.items() if value > LIMITS[name]}


def _few_rows(one: Boosted, rows: int) -> str:
    """Describe a sample of rows that is too small for a split, or return ""."""
    for name in ("subsample", "bagging_fraction"):
        share = number_of(one.began, name)
        if 0 < share * rows < MIN_SAMPLE:
            return f"{name} {share:g} ({share * rows:.0f} rows for each tree)"
    return ""


def _light_rows(one: Boosted) -> str:
    """Describe row weights whose sum is too small for a split of two classes, or return ""."""
    table = one.tables.get("")
    if table is None or not table.class_weights or table.label_counts is None:
        return ""
    weights = zip(table.class_weights, table.label_counts, strict=False)
    total = sum(weight * count for weight, count in weights)
    least = max(number_of(one.began, name) for name in HESSIAN_LIMITS)
    if one.began.task != "two_classes" or not 0 < HESSIAN * total < 2 * least:
        return ""
    if total > LIGHT * sum(table.label_counts):
        return ""
    return f"row weights whose sum is {total:.2g}"


def _extreme_start(one: Boosted) -> str:
    """Describe a `base_score` so extreme that there is hardly a gradient, or return ""."""
    base = number_of(one.began, "base_score")
    extreme = base > 1 - EXTREME or 0 < base < EXTREME
    return f"base_score {base:g}" if extreme and one.began.task == "two_classes" else ""


def _limits(one: Boosted, rows: int) -> str:
    found = [each for each in (_few_rows(one, rows), _extreme_start(one)) if each]
    seen = one.gradients
    if seen is not None and seen.hessian_sum is not None and 0 < seen.hessian_sum < MIN_HESSIAN_SUM:
        found.append(f"hessians of the custom objective whose sum is {seen.hessian_sum:.2g}")
    if light := _light_rows(one):
        found.append(light)
    if _is_light(one):
        found.append(f"scale_pos_weight {number_of(one.began, 'scale_pos_weight'):.2g}")
    found += [f"{name} {value:g}" for name, value in _raised(one).items()]
    return ", ".join(found)
