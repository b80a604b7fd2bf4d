"""TRE908: early stopping uses the wrong data or the wrong direction of its metric."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, BoostingEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.metrics import sense_by_name
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

DIRECTION = "which direction is better"
"""Words that only the fixes for a reversed metric have."""


@frozen
class EarlyStoppingMisled(Rule):
    """Early stopping uses the wrong data or the wrong direction of its metric.

    What it detects:
        Early stopping on the training data, and early stopping that minimizes a metric that
        should be maximized, or the reverse.

    Why it matters:
        The training score improves in each round, so early stopping on it never stops. A growing
        score that is minimized stops training immediately, with one of the first rounds as the
        best.

    Fires:
        Warning when early stopping uses the training data, or when only the training data are
        evaluated and the library does not stop on them. Error when the name of the metric says
        that greater is better but early stopping minimizes it (or the reverse), and the best
        round is among the first `rounds`; a warning until the best round is known.

    Stays quiet:
        Without early stopping. For metrics whose name does not say which direction is better.

    What to do:
        - XGBoost: Pass held-out rows, and pass them last: XGBoost uses the last of the evals for
          early stopping.
        - LightGBM: Pass held-out rows: `valid_sets=[valid]`.
        - CatBoost: Pass held-out rows, and pass them last: CatBoost uses the last `eval_set` for
          early stopping.
        - XGBoost: State which direction is better: `EarlyStopping(rounds, maximize=True)`.
        - LightGBM: State which direction is better, as the third value that a metric returns.
        - CatBoost: State which direction is better, in `is_max_optimal` of the metric.

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
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        began = one.began
        never = not began.stops_on and bool(began.train_site) and not one.held_out
        if began.stops_after is None or not (began.stops_on or never):
            raise NotApplicable("early stopping is not used")
        site, _, metric = began.stops_on.rpartition("/")
        better = sense_by_name(metric)
        severity, words = Severity.WARNING, ""
        is_reversed = None not in (better, began.stops_rising) and better != began.stops_rising
        if is_reversed:
            wrong, right = ("minimizes", "greater") if better else ("maximizes", "smaller")
            words = f"a {right} {metric} is better, but early stopping {wrong} it"
            best = one.ended.best_round if one.ended is not None else None
            if best is not None and best - began.rounds_before < self.rounds:
                severity = Severity.ERROR
                words += f": it selects round {best} of {one.rounds} as the best"
        elif never:
            words = (
                f"early stopping is on, but only the training data ({began.train_site}) are "
                f"evaluated, and {began.library} never stops on them"
            )
        elif began.train_site and site == began.train_site.partition("#")[0]:
            words = f"early stopping uses {metric} of {site}, which is the training data"
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
