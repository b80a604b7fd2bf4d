"""TRE919: boosting with a custom objective begins far from the labels."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, BoostingEnded, GradientsGiven
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class BoostingStartsFarOff(Rule):
    """Boosting with a custom objective begins far from the labels.

    What it detects:
        A custom objective whose first predictions are far below, or above, the labels of nearly
        all rows, so that many rounds only move all predictions by the same amount.

    Why it matters:
        For its built-in objectives, the library starts with the best constant, such as the mean
        label. For a custom objective it starts with 0 (or 0.5). Each round then closes only a
        fraction of the gap, equal to the learning rate. Early stopping may end training before
        the features matter.

    Fires:
        Warning when the distance of the median row is at least `far` times the spread of the rows,
        `one_sided` of the rows have to move in the same direction, and training has too few
        rounds to come within one spread. Info when this takes more than `wasted` of the rounds.

    Stays quiet:
        Built-in objectives. Objectives with several outputs or a Hessian of 0. Training that
        continues from an existing model.

    What to do:
        - Start from the best constant: `base_score=y.mean()` in XGBoost, `init_score` in LightGBM.
        - Or subtract the mean from the labels, and add it to the predictions.

    Example:
        xgboost.train({"eta": 0.05}, train, 60, obj=squared)        # labels of about 300
        xgboost.train({"eta": 0.05, "base_score": y.mean()}, train, 60, obj=squared)

    References:
        XGBoost, Intercept, https://xgboost.readthedocs.io/en/stable/tutorials/intercept.html
    """

    code = "TRE919"
    needs = (Need(facts=(BoostingBegan, BoostingEnded, GradientsGiven)), OF_BOOSTED)
    explains = ("boosting_rate_too_low", "nothing_learned", "tree_not_growing", "useless_features")

    far: float = threshold(3.0, unit="times the spread of the rows", source="chosen by hand")
    one_sided: float = threshold(0.99, unit="of the rows", source="chosen by hand")
    wasted: float = threshold(0.3, unit="of the rounds", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        seen, rate = one.gradients, one.began.learning_rate
        if seen is None:
            raise NotApplicable("the objective is built into the library")
        if not (seen.shift and seen.shift_spread and seen.one_sided and rate):
            raise NotApplicable("the first gradients do not show how far the predictions are off")
        if one.ended is None:
            raise NotEnoughData("training has not ended")
        distance = abs(seen.shift) / seen.shift_spread
        if distance < self.far or seen.one_sided < self.one_sided or one.began.rounds_before:
            return None
        rounds = max(1, one.ended.rounds)
        needed = math.ceil(math.log(distance) / -math.log1p(-rate)) if rate < 1 else 1
        if needed <= self.wasted * rounds:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING if needed > rounds else Severity.INFO,
            step=one.began.step,
            last_step=one.ended.step,
            message=(
                f"the first predictions are {abs(seen.shift):.3g} too "
                f"{'low' if seen.shift > 0 else 'high'} for the median row, {distance:.2g} times "
                f"the spread of the rows (limit {self.far:g}). At a learning rate of {rate:g}, "
                f"closing this gap alone takes {needed} rounds; this run has {rounds}"
            ),
            evidence={
                "value": distance,
                "limit": self.far,
                "needed": needed,
                "rounds": rounds,
                "fit": one.began.fit,
            },
            location=one.began.location,
        )
