"""TRE918: the model never does better than guessing on other rows."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan, ScoresSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import trend
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, penalty_of, with_evaluation

MIN_ROWS_OF_CLASS, NOISE = 20, 2.0
"""Rows of each class, and the number of standard errors above 0.5 up to which the area under the
ROC curve counts as chance; chosen by hand."""


@rule(
    "TRE918",
    needs=[
        *any_of(Need(facts=(BoostingBegan, Evaluation)), Need(facts=(BoostingBegan, ScoresSeen))),
        OF_BOOSTED,
    ],
    explains=(
        "overfit",
        "overtraining",
        "stopped_too_late",
        "labels_unrelated",
        "leaf_explosion",
        "class_imbalance",
        "unscaled_weights",
    ),
    passes=True,
)
def nothing_learned(
    window: Window,
    *,
    rounds: int = threshold(10, unit="rounds", source="chosen by hand"),
    rows: int = threshold(100, unit="evaluation rows", source="chosen by hand"),
    falling: float = threshold(0.9, unit="rank correlation with time", source="chosen by hand"),
    share: float = threshold(0.99, unit="of the loss from guessing", source="chosen by hand"),
) -> list[Found]:
    """The model never does better than guessing on evaluation rows.

    What it detects:
        Training whose evaluation loss was never better than a constant guess, although the trees
        have splits.

    Why it matters:
        Trees always fit the training rows. If that never helps on other rows, the labels do not
        belong to their rows (shuffled, sorted or joined separately), or the columns contain no
        information about them.

    Fires:
        Warning when, over at least `rounds` rounds and at least `rows` evaluation rows, the best
        evaluation loss stayed above `share` of the loss from guessing. If no loss is evaluated,
        warning when the final predictions for two classes rank the evaluation rows no better than
        chance (area under the ROC curve within two standard errors of 0.5, or below).

    Stays quiet:
        When the loss from guessing is not known (ranking, weights, custom metrics). Trees of one
        leaf. When evaluation was ever better than guessing, or improves from round to round (rank
        correlation below -`falling`).

    What to do:
        - Look at some rows: does each label belong to its columns? Shuffle and sort labels and
          columns together.
        - Check that the same code prepares training and evaluation rows.
        - Lower the penalty on leaves: `reg_lambda=1` (XGBoost, LightGBM), `l2_leaf_reg=3`
          (CatBoost).

    Example:
        rng.shuffle(y)                                  # and not x
        order = rng.permutation(len(x)); x, y = x[order], y[order]

    References:
        Ojala and Garriga 2010, Permutation tests for studying classifier performance, JMLR 11
    """

    def judge(one: Boosted) -> Found | None:
        if one.judged is None and one.held_out:
            return _by_ranking(one, rows, rounds)
        judged = with_evaluation(one)
        last = judged.last
        if not last.guess:
            raise NotApplicable("the loss from guessing is unknown")
        if last.rows < rows or last.number + 1 < rounds:
            raise NotEnoughData(f"needs {rounds} rounds and {rows} rows")
        table = one.tables.get("")
        grows = any(tree.leaves > 1 for tree in one.trees)
        small = one.began.learning_rate is not None and one.began.learning_rate * last.number < 1
        falls = trend(judged.value_E) < -falling  # slowly, but it learns
        if last.best <= share * last.guess or not grows or small or falls:
            return None
        penalty = penalty_of(one.began)
        if table is not None and table.weighted:
            raise NotApplicable("rows or classes are weighted")
        return Found.of(
            [one.began, last],
            f"in {last.number + 1} rounds {last.operation} of {last.site} was never below "
            f"{last.best:.4g}; guessing gives {last.guess:.4g}"
            + (f"; {penalty} shrinks the leaves" if penalty else ""),
            fixes=(2,) if penalty else (0, 1),
            count=last.number + 1,
            mode="eval",
            evidence={
                "value": last.best,
                "limit": share * last.guess,
                "guess": last.guess,
                "site": last.site,
                "fit": one.began.fit,
            },
        )

    return judge_each(window, judge)


def _by_ranking(one: Boosted, rows: int, rounds: int) -> Found | None:
    """Report a final area under the ROC curve that is no better than chance."""
    for site in one.held_out:
        seen = one.scores.get(site)
        if seen is None or not seen.last or seen.auc is None or len(seen.confusion) != 2:
            continue
        negative, positive = map(sum, seen.confusion)
        if one.rounds < rounds or seen.rows < rows or min(negative, positive) < MIN_ROWS_OF_CLASS:
            raise NotEnoughData(f"needs {rounds} rounds and {rows} rows")
        spread = math.sqrt((seen.rows + 1) / (12 * negative * positive))
        if seen.auc > 0.5 + NOISE * spread:
            return None
        return Found.of(
            [one.began, seen],
            f"after {one.rounds} rounds, the area under the ROC curve of {site} is {seen.auc:.3g} "
            f"(limit {0.5 + NOISE * spread:.3g}); guessing gives 0.5",
            mode="eval",
            evidence={"value": seen.auc, "limit": 0.5 + NOISE * spread, "fit": one.began.fit},
            fixes=(0, 1),
        )
    raise NotEnoughData("no evaluation loss and no ROC curve was recorded")
