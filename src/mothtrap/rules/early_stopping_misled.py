"""TRE908: early stopping looks at the wrong data, or the wrong way round."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, BoostingEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.metrics import sense_by_name
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

DIRECTION = "which way is better"
"""Words of the advice for a metric that is taken the wrong way round."""


@dataclass(frozen=True)
class EarlyStoppingMisled(Rule):
    """Early stopping looks at the wrong data, or the wrong way round.

    What it detects:
        Early stopping by the training data themselves, and by a metric whose direction is taken
        the wrong way round.

    Why it matters:
        The training data are fitted better in each round, so they never stop; a score that grows
        and is taken for a loss stops at once, with the first rounds as the best.

    Fires:
        Warning when the data by which training stops are those that are trained on, or when the
        library would not stop by these and nothing else is evaluated. Error when a
        greater value of the metric is better by its name, smaller ones are looked for (or the
        reverse), and the best round is among the first `rounds`; a warning before that is known.

    Stays quiet:
        Without early stopping; for metrics whose name does not say what is better.

    What to do:
        - XGBoost: Pass rows that are not trained on, and pass them last: XGBoost stops by the
          last of the evals.
        - LightGBM: Pass rows that are not trained on: `valid_sets=[valid]`.
        - CatBoost: Pass rows that are not trained on, and pass them last: CatBoost stops by
          the last `eval_set`.
        - XGBoost: Say which way is better: `EarlyStopping(rounds, maximize=True)`.
        - LightGBM: Say which way is better: the third value that a metric returns.
        - CatBoost: Say which way is better: `is_max_optimal` of the metric.

    Example:
        xgboost.train(params, train, evals=[valid, train], early_stopping_rounds=20)
        xgboost.train(params, train, evals=[train, valid], early_stopping_rounds=20)

    References:
        https://xgboost.readthedocs.io/en/stable/python/callbacks.html
    """

    code = "TRE908"
    title = "misled early stopping"
    needs = (Need(facts=(BoostingBegan, BoostingEnded)), OF_BOOSTED)
    explains = (
        "evaluated_on_training",
        "stopped_too_late",
        "overfit",
        "boosting_rate_too_low",
    )
    rounds: int = threshold(2, unit="rounds", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        began = one.began
        never = not began.stops_on and bool(began.train_site) and not one.held_out
        if began.stops_after is None or not (began.stops_on or never):
            raise NotApplicable("nothing stops the training early")
        site, _, metric = began.stops_on.rpartition("/")
        better = sense_by_name(metric)
        severity, words = Severity.WARNING, ""
        is_reversed = None not in (better, began.stops_rising) and better != began.stops_rising
        if is_reversed:
            looked, right = ("smaller", "greater") if better else ("greater", "smaller")
            words = f"a {right} {metric} is better, but the training stops by the {looked} one"
            best = one.ended.best_round if one.ended is not None else None
            if best is not None and best - began.rounds_before < self.rounds:
                severity = Severity.ERROR
                words += f": round {best} of {one.rounds} is taken for the best"
        elif never:
            words = (
                f"training is to stop early, but only {began.train_site} is evaluated, the data "
                f"that are trained on, by which {began.library} never stops"
            )
        elif began.train_site and site == began.train_site.partition("#")[0]:
            words = f"the training stops by {metric} of {site}, the data that are trained on"
        if not words:
            return None
        return self.finding(
            window,
            severity=severity,
            step=began.step,
            message=words,
            fixes=tuple(f for f in self.fixes(window) if (DIRECTION in f) == is_reversed),
            evidence={
                "metric": metric,
                "site": site,
                "patience": began.stops_after,
                "rounds": one.rounds,
                "fit": began.fit,
            },
            location=began.location,
        )
