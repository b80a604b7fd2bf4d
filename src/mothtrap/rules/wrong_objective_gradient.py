"""TRE914: a custom objective returns wrong gradients."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, GradientsGiven, ScoresSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@rule(
    "TRE914",
    severity="error",
    needs=[
        *any_of(
            Need(facts=(BoostingBegan, GradientsGiven)), Need(facts=(BoostingBegan, ScoresSeen))
        ),
        OF_BOOSTED,
    ],
    explains=(
        "loss_diverging",
        "loss_not_decreasing",
        "nonfinite_loss",
        "stopped_too_late",
        "overtraining",
        "boosting_rate_too_high",
        "nothing_learned",
        "tree_not_growing",
        "boosting_rate_too_low",
        "boosting_starts_far_off",
    ),
)
def wrong_objective_gradient(
    window: Window,
    *,
    correlation: float = threshold(
        0.1, unit="correlation with the labels", source="chosen by hand"
    ),
    share: float = threshold(0.01, unit="of the hessians", source="chosen by hand"),
    reverse: float = threshold(
        0.3, unit="correlation of predictions and labels", source="chosen by hand"
    ),
    rows: int = threshold(50, unit="rows", source="chosen by hand"),
    own: float = threshold(
        0.9, unit="of the rows", source="chosen by hand: all rows at the first prediction"
    ),
    chance: float = threshold(
        0.6, unit="of the rows", source="chosen by hand: one of the classes at random"
    ),
    step: float = threshold(
        1000.0,
        unit="size of a Newton step",
        source="chosen by hand: about 2 for two classes, at most 1 for a squared error",
    ),
) -> list[Found]:
    """A custom objective returns wrong gradients.

    What it detects:
        Gradients with the wrong sign, hessians that are not positive, and values that are not
        finite, returned by a custom objective in the first round. For several classes, gradients
        in the wrong order.

    Why it matters:
        The library subtracts the gradient. If the objective returns label minus prediction, each
        tree moves away from the labels. If the hessian is 0 or negative, leaf values are undefined
        or have the wrong sign. LightGBM reads a flat array class after class, so one that contains
        row after row assigns the gradients to other rows and classes.

    Fires:
        Error when gradients and labels correlate by more than `correlation` (the gradients of a
        loss fall as the label grows), when more than `share` of the hessians are not positive, or
        when any value is not finite. In CatBoost, whose objectives get one row at a time: when the
        model's predictions and the labels of at least `rows` training rows correlate by less than
        minus `reverse` at the end. Warning when gradients divided by hessians spread by more than
        `step` although all labels are between 0 and 1: the objective takes margins for
        probabilities and clips them. Error when the class of a row has its smallest gradient in
        `own` of the rows only in the order that the library does not use, and in at most `chance`
        of them in the other order.

    Stays quiet:
        Built-in objectives. Labels that are all the same.

    What to do:
        - XGBoost, LightGBM: Return the derivative of the loss with respect to the prediction, not
          its negative: prediction minus label for a squared error, `sigmoid(margin) - label` for
          two classes.
        - CatBoost: Return the negative derivatives of the loss: `target - approx` and -1 for a
          squared error, `target - p` and `-p * (1 - p)` for two classes.
        - XGBoost, LightGBM: Return a positive hessian: `numpy.maximum(hessian, 1e-6)`.
        - XGBoost, LightGBM: Compute the hessian from probabilities: the library passes margins, so
          call the sigmoid first, `p = 1 / (1 + exp(-margin))`; the hessian is `p * (1 - p)`.
        - LightGBM: Return gradients and hessians of shape (rows, classes), without `ravel()`, or
          flatten them class after class: `grad.ravel(order="F")`.
        - XGBoost: Return gradients and hessians of shape (rows, classes), without `ravel()`.

    Example:
        def objective(predicted, train): return train.get_label() - predicted, ones
        def objective(predicted, train): return predicted - train.get_label(), ones

    References:
        https://xgboost.readthedocs.io/en/stable/tutorials/custom_metric_obj.html
    """

    def judge(one: Boosted) -> Found | None:
        seen = one.gradients
        if seen is None:
            return _by_predictions(one, reverse, rows)
        if seen.nonfinite:
            value, limit = float(seen.nonfinite), 0.0
            words = f"{seen.nonfinite} gradients or hessians of {seen.rows} rows are not finite"
        elif disorder := _in_other_order(one, own, chance):
            return Found.of(
                one.began,
                f"the custom objective returns its gradients {disorder}",
                evidence={
                    "by_row": seen.by_row,
                    "by_class": seen.by_class,
                    "rows": seen.rows,
                    "fit": one.began.fit,
                },
                fixes=(4, 5),
            )
        elif seen.against is not None and seen.against > correlation:
            value, limit = seen.against, correlation
            words = (
                f"gradients grow with the labels (correlation {seen.against:.2f}, limit "
                f"{correlation:g}): their sign is wrong"
            )
        elif seen.hessians_below > share:
            value, limit = seen.hessians_below, share
            words = f"{value:.1%} of the hessians are not positive (limit {limit:.0%})"
        elif _is_clipped(one, step):
            return Found.of(
                one.began,
                "the custom objective probably takes margins for probabilities: in the first "
                f"round, gradients divided by hessians spread by {seen.shift_spread:.2g} (limit "
                f"{step:g}), although all labels are between 0 and 1",
                severity="warning",
                evidence={"value": seen.shift_spread, "limit": step, "fit": one.began.fit},
                fixes=(3,),
            )
        else:
            return None
        return Found.of(
            one.began,
            f"the custom objective is wrong in the first round: {words}",
            evidence={"value": value, "limit": limit, "rows": seen.rows, "fit": one.began.fit},
            fixes=(2, 3) if seen.hessians_below > share and not seen.nonfinite else (0, 2),
        )

    return judge_each(window, judge)


def _in_other_order(one: Boosted, own: float, chance: float) -> str:
    """Return in which wrong order a flat array of gradients is, in words; "" if it is right."""
    seen = one.gradients
    if seen is None or seen.by_row is None or seen.by_class is None:
        return ""
    if one.began.library == "lightgbm" and seen.by_row >= own and seen.by_class <= chance:
        right, read, words = seen.by_row, seen.by_class, ("row after row", "class after class")
    elif one.began.library == "xgboost" and seen.by_class >= own and seen.by_row <= chance:
        right, read, words = seen.by_class, seen.by_row, ("class after class", "row after row")
    else:
        return ""
    return (
        f"{words[0]}, but the library reads a flat array {words[1]}: read like this, the class of "
        f"a row has its smallest gradient in {read:.0%} of the rows, otherwise in {right:.0%}"
    )


def _is_clipped(one: Boosted, step: float) -> bool:
    """Return whether the first Newton steps are far too large for labels between 0 and 1."""
    seen, table = one.gradients, one.tables.get("")
    if seen is None or seen.shift_spread is None or table is None:
        return False
    least, greatest = table.label_min, table.label_max
    if least is None or greatest is None or least < 0 or greatest > 1:
        return False
    return seen.shift_spread > step


def _by_predictions(one: Boosted, reverse: float, rows: int) -> Found | None:
    """Check whether the predictions of training rows fall where their labels rise."""
    seen = one.scores.get(one.began.train_site)
    if one.began.objective != "custom" or seen is None or seen.relation is None:
        raise NotEnoughData("no gradients were recorded")
    if seen.rows < rows:
        raise NotEnoughData(f"needs {rows} rows, saw {seen.rows}")
    if seen.relation >= -reverse:
        return None
    return Found.of(
        one.began,
        "the custom objective is wrong: the predictions of training rows fall as their labels rise "
        f"(correlation {seen.relation:.2f}, limit {-reverse:g}), so a derivative has the wrong "
        "sign",
        evidence={
            "value": seen.relation,
            "limit": -reverse,
            "rows": seen.rows,
            "fit": one.began.fit,
        },
        fixes=(1,),
    )
