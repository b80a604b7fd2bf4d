"""TRE902: boosting continues long after the best evaluation."""

from __future__ import annotations

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, present, with_evaluation
from mothtrap.rules._trees import rounds_since_best as since_best


@frozen
class StoppedTooLate(Rule):
    """Boosting continues long after the best evaluation.

    What it detects:
        Training without early stopping whose evaluation has been getting worse for many rounds.

    Why it matters:
        Each further round fits noise in the training rows. The final model is the last one, not the
        best one, and it is larger and slower.

    Fires:
        Warning when more than `rounds` rounds, and more than `share` of the rounds before the best
        evaluation, have followed it, and the evaluation loss is `rise` above the best.

    Stays quiet:
        Training that stops early, with any patience, or keeps its best rounds, as CatBoost does.
        Evaluations on training data only. While the evaluation loss hovers at its best.

    What to do:
        - XGBoost: Stop early: `xgboost.train(..., early_stopping_rounds=50)`, or
          `XGBClassifier(early_stopping_rounds=50)`.
        - LightGBM: Stop early: `callbacks=[lightgbm.early_stopping(50)]`; the booster then predicts
          with its best round.
        - CatBoost: Stop early: `early_stopping_rounds=50` in `fit`, with an `eval_set`; the model
          is then cut to its best round.
        - scikit-learn: Stop early: `n_iter_no_change=20` (`early_stopping=True` for the histogram
          estimators).
        - XGBoost: Predict with the best rounds only: `booster.predict(data, iteration_range=(0,
          booster.best_iteration + 1))`.

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
    rise: float = threshold(0.01, unit="of the best evaluation loss", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run that has an evaluation set."""
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
                f"{after} rounds later it is {last:.4g}, and no early stopping is set"
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
