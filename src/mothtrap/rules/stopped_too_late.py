"""TRE902: boosting goes on long after the evaluation was best."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, present, with_evaluation
from mothtrap.rules._trees import rounds_since_best as since_best


@dataclass(frozen=True)
class StoppedTooLate(Rule):
    """Boosting goes on long after the evaluation was best.

    What it detects:
        A training without early stopping whose evaluation has become worse for many rounds.

    Why it matters:
        Each further round fits what is left of the training rows: noise. The model that is
        kept is the last one, not the best one, and is larger and slower.

    Fires:
        Warning when more than `rounds` rounds, and more than `share` of those that the best
        evaluation took, have followed it, and the loss of evaluation is `rise` above the best.

    Stays quiet:
        Where training stops early by itself, whatever its patience, or keeps its best rounds, as
        CatBoost does; where no data are evaluated
        but those that are trained on; while the loss of evaluation hovers at its best.

    What to do:
        - XGBoost: Stop early: `xgboost.train(..., early_stopping_rounds=50)`, or
          `XGBClassifier(early_stopping_rounds=50)`.
        - LightGBM: Stop early: `callbacks=[lightgbm.early_stopping(50)]`; the booster then
          predicts with its best round.
        - CatBoost: Stop early: `early_stopping_rounds=50` in `fit`, with an `eval_set`; the
          model is then cut to its best round.
        - scikit-learn: Stop early: `n_iter_no_change=20` (`early_stopping=True` of the
          histogram estimators).
        - XGBoost: Predict with the best round only: `booster.predict(data,
          iteration_range=(0, booster.best_iteration + 1))`.

    Example:
        xgboost.train(params, train, 2000, evals=[(valid, "valid")])
        xgboost.train(params, train, 2000, evals=[(valid, "valid")], early_stopping_rounds=50)

    References:
        Zhang and Yu 2005, Boosting with early stopping, https://doi.org/10.1214/009053605000000255
    """

    code = "TRE902"
    needs = (Need(facts=(BoostingBegan, Evaluation)), OF_BOOSTED)
    explains = ("overfit", "overtraining")
    passes = True

    rounds: int = threshold(50, unit="rounds after the best", source="chosen by hand")
    share: float = threshold(0.5, unit="of the rounds to the best", source="chosen by hand")
    rise: float = threshold(0.01, unit="of the best loss of evaluation", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training that has an evaluation set."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        judged = with_evaluation(one)
        if one.began.stops_after is not None or one.began.keeps_best:
            return None
        took, after = since_best(one, judged)
        best, last = judged.last.best, present(judged.value_E)
        if after <= max(self.rounds, self.share * took) or last - best <= self.rise * abs(best):
            return None
        metric = judged.last.operation
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            last_step=judged.last.step,
            count=after,
            mode="eval",
            message=(
                f"{metric} of {judged.last.site} was best after {took} rounds ({best:.4g}); "
                f"{after} rounds later it is {last:.4g}, and nothing stops the training"
            ),
            evidence={
                "value": last,
                "best": best,
                "best_round": took,
                "rounds_after": after,
                "limit": max(self.rounds, self.share * took),
                "fit": one.began.fit,
            },
            location=one.began.location,
        )
