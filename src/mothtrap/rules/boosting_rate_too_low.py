"""TRE910: boosting ends long before the loss levels off."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, BoostingEnded
from mothtrap.core.findings import EvidenceValue
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, number_of, penalty_of

L2_PENALTIES = ("reg_lambda", "lambda_l2", "l2_leaf_reg", "l2_regularization")
"""L2 penalties. They are added to the sum of the hessians of a leaf, in which a row counts at most
1."""
FEW = 5
"""Minimum number of rounds; a loop of the script may call the library for single rounds. Chosen by
hand."""


@rule(
    "TRE910",
    needs=[Need(facts=(BoostingBegan, BoostingEnded)), OF_BOOSTED],
    explains=(
        "loss_not_decreasing",
        "class_imbalance",
        "unscaled_weights",
        "nothing_learned",
        "constant_prediction",
        "labels_unrelated",
        "tree_not_growing",
    ),
)
def boosting_rate_too_low(
    window: Window,
    *,
    rounds: int = threshold(20, unit="rounds", source="chosen by hand"),
    reach: float = threshold(
        1.5, unit="rate times rounds", source=("chosen by hand: at 1.5, 22 % of the error remains")
    ),
    certain: float = threshold(
        0.05,
        unit="rate times rounds",
        source="chosen by hand: at 0.05, 95 % of the error remains with any loss",
    ),
    still: float = threshold(
        0.3, unit="of the decrease of the loss in the first quarter", source="chosen by hand"
    ),
) -> list[Found]:
    """Boosting ends long before the loss levels off.

    What it detects:
        A learning rate so low for the number of rounds that the loss still falls nearly as fast
        as at the start when training ends.

    Why it matters:
        After n rounds with rate r, about (1 - r)^n of the learnable part is still missing: with
        0.001 and 100 rounds, 90 %. The model predicts little more than the mean.

    Fires:
        Warning at the end of training in two cases. In the first, there were at least 5 rounds, and
        rate times rounds, reduced by an L2 penalty on the leaves, is below `certain`. In the
        second, rate times rounds is below `reach`, or a penalty on the leaves is more than 100
        times its usual value, and the loss still fell in the last quarter by more than `still` of
        its fall in the first quarter. This is a note with fewer than `rounds` rounds. The
        evaluation loss is used, or the training loss if there is none.

    Stays quiet:
        While training runs. If the library chooses the rate. In the second case also after early
        stopping, and if no loss was recorded.

    What to do:
        - Raise the learning rate (0.05 to 0.3), or use more rounds with early stopping, so that
          rate times rounds is at least 3.
        - Lower the penalty on leaves: `reg_lambda=1` (XGBoost, LightGBM), `l2_leaf_reg=3`
          (CatBoost).

    Example:
        xgboost.train({"eta": 0.001}, train, 100, evals=evals)
        xgboost.train({"eta": 0.1}, train, 1000, evals=evals, early_stopping_rounds=50)

    References:
        Friedman 2001, Greedy function approximation: a gradient boosting machine, section 5,
        https://doi.org/10.1214/aos/1013203451
    """

    def judge(one: Boosted) -> Found | None:
        began, ended = one.began, one.ended
        rate = began.learning_rate
        if rate is None and not penalty_of(began):
            raise NotApplicable("the learning rate is unknown, or the model has no trees")
        if ended is None:
            raise NotEnoughData("training has not ended")
        rate = 1.0 if rate is None else rate
        reached = rate * ended.rounds
        if not began.rounds_before and ended.rounds >= FEW:
            words = _hardly_moves(one, reached, certain)
            if words:
                evidence: dict[str, EvidenceValue] = {
                    "value": reached,
                    "limit": certain,
                    "fit": began.fit,
                }
                fixes = (1,) if penalty_of(began) else (0,)
                return Found.of([began, ended], words, count=1, evidence=evidence, fixes=fixes)
        stopped = began.stops_after is not None and ended.rounds < began.rounds_asked
        penalty = penalty_of(began) if reached >= reach else ""
        if stopped or began.rounds_before or (reached >= reach and not penalty):
            return None
        name, curve = _curve(one)
        quarter = max(1, len(curve) // 4)
        if len(curve) < 4:
            raise NotEnoughData("needs at least 4 values of a loss")
        first, late = curve[0] - curve[quarter], curve[-1 - quarter] - curve[-1]
        if not first > 0 or not late > still * first:
            return None
        return Found.of(
            [began, ended],
            f"after {ended.rounds} rounds with a learning rate of {rate:.3g}, "
            f"{name} still falls nearly as fast as at the start, from {curve[0]:.4g} to "
            f"{curve[-1]:.4g} "
            + (
                f"because {penalty} shrinks the leaves"
                if penalty
                else f"(rate times rounds is {reached:.3g}, limit {reach:g})"
            ),
            fixes=(1,) if penalty else (0,),
            severity="warning" if ended.rounds >= rounds else "info",
            count=1,
            evidence={
                "value": reached,
                "limit": reach,
                "rate": rate,
                "rounds": ended.rounds,
                "fit": began.fit,
            },
        )

    return judge_each(window, judge)


def _hardly_moves(one: Boosted, reached: float, certain: float) -> str:
    """Describe training whose predictions cannot have moved far, or return ""."""
    began, table = one.began, one.tables.get("")
    penalty = max((number_of(began, name) for name in L2_PENALTIES), default=0.0)
    rows = table.rows if table is not None else 0
    kept = rows / (rows + penalty) if rows else 1.0
    if reached * kept >= certain:
        return ""
    trained = one.ended.rounds if one.ended is not None else 0
    rate = f" with a learning rate of {began.learning_rate:.3g}" if began.learning_rate else ""
    words = (
        f"{trained} rounds{rate} moved the predictions at most {reached * kept:.2%} of the way "
        f"from the initial value to the labels (limit {certain:.0%})"
    )
    return (
        f"{words}, because {penalty_of(began)} shrinks the leaves" if reached >= certain else words
    )


def _curve(one: Boosted) -> tuple[str, Floats]:
    """Return the name and the values of the loss that measures progress."""
    judged = one.judged
    if judged is not None:
        values = judged.value_E
        if judged.last.number + 1 > len(values):
            values = np.append([judged.last.first], values)
        return f"{judged.last.operation} of {judged.last.site}", values
    if one.loss is None or not len(one.loss):
        raise NotApplicable("no evals were passed, so no metric is computed")
    return "the training loss", one.loss.values_S
