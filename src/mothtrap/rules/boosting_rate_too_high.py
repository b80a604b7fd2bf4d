"""TRE904: each tree corrects so much that the sum of trees overshoots."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, present
from mothtrap.rules._trees import rounds_since_best as since_best

FAR, FAR_RISE = 1.0, 0.5
"""A rate that corrects more than the whole error, and the rise of the loss that it may cause;
chosen by hand."""


@rule(
    "TRE904",
    needs=[
        Need(facts=(BoostingBegan,)),
        *any_of(Need(facts=(Evaluation,)), Need(scalars=("loss",))),
        OF_BOOSTED,
    ],
    explains=(
        *("stopped_too_late", "overfit", "overtraining", "loss_diverging"),
        *("loss_not_decreasing", "loss_oscillating", "loss_spike", "leaf_explosion"),
        "nothing_learned",
        "constant_prediction",
        "labels_unrelated",
        "tree_not_growing",
    ),
    passes=True,
)
def boosting_rate_too_high(
    window: Window,
    *,
    rate: float = threshold(
        0.7, unit="learning rate", source="chosen by hand: more than twice XGBoost's default of 0.3"
    ),
    certain: float = threshold(
        2.0,
        unit="learning rate",
        source="Friedman 2001: above it, squared errors grow with every tree",
    ),
    rounds: int = threshold(20, unit="rounds", source="chosen by hand"),
    begin: int = threshold(3, unit="first rounds", source="chosen by hand"),
    early: float = threshold(0.05, unit="of the rounds", source="chosen by hand"),
    rise: float = threshold(0.05, unit="of the best evaluation loss", source="chosen by hand"),
) -> list[Found]:
    """Each tree corrects so much that the sum of trees overshoots.

    What it detects:
        A learning rate far above the default, with a training loss that rises in the first
        rounds, or an evaluation loss that is best after a few of many rounds.

    Why it matters:
        With a small rate each tree corrects the errors of the previous trees. With a large rate
        the first few trees dominate, including their noise. Above 2 training diverges.

    Fires:
        Error when the learning rate is above `certain`, from the first round. Error when it is at
        least `rate` and the training loss ends above its first value. Warning when the training
        loss rises in the first `begin` rounds, or when the evaluation loss is best within the
        first `early` of the rounds and is now `rise` worse. With a rate of 1 or more, warning
        also when the evaluation loss ends 50 % above its best, or when early stopping selects
        the first round.

    Stays quiet:
        With a learning rate below `rate`. With a learning rate up to `certain` before `rounds`
        rounds, unless early stopping ended training.

    What to do:
        - XGBoost: Lower the learning rate: `learning_rate=0.1` (`eta`), with more rounds.
        - LightGBM, CatBoost, scikit-learn: Lower the learning rate: `learning_rate=0.1`, with
          more rounds.
        - XGBoost, CatBoost: Let early stopping choose the number of rounds:
          `early_stopping_rounds=50`.
        - LightGBM: Let early stopping choose the number of rounds:
          `callbacks=[lightgbm.early_stopping(50)]`.
        - scikit-learn: Let early stopping choose the number of rounds: `n_iter_no_change=20`
          (`early_stopping=True` of the histogram estimators).

    Example:
        xgboost.train({"eta": 1.5}, train, 200, evals=[(valid, "valid")])
        xgboost.train({"eta": 0.1}, train, 200, evals=[(valid, "valid")])

    References:
        Friedman 2001, Greedy function approximation: a gradient boosting machine, section 5,
        https://doi.org/10.1214/aos/1013203451
    """

    def judge(one: Boosted) -> Found | None:
        began = one.began
        used = began.learning_rate
        if used is None:
            raise NotApplicable("the model has no trees, or its learning rate is unknown")
        if used > certain:
            return Found.of(
                began,
                f"the learning rate is {used:.3g} (limit {certain:g}): each tree corrects "
                f"{used:.3g} times the remaining error",
                severity="error",
                evidence={"value": used, "limit": certain, "fit": began.fit},
            )
        if one.loss is None and one.judged is None:
            raise NotApplicable("no evals were passed, so no metric is computed")
        seen = len(one.loss) if one.loss is not None else one.judged.last.number + 1  # type: ignore[union-attr]
        if seen < rounds and not _stopped_at_once(one, used):
            raise NotEnoughData(f"needs {rounds} rounds, saw {seen}")
        if used < rate:
            return None
        words, severity = _overshoots(one, used, begin, early, rise)
        if not words:
            return None
        return Found.of(
            began,
            f"with a learning rate of {used:.3g} (limit {rate:g}) {words}",
            severity=severity,
            evidence={"value": used, "limit": rate, "fit": began.fit},
        )

    return judge_each(window, judge)


def _overshoots(
    one: Boosted, rate: float, begin: int, early: float, rise: float
) -> tuple[str, Severity]:
    """Return the evidence of overshooting trees, and its severity."""
    if one.loss is not None:
        loss_S = one.loss.early_S if len(one.loss.early_S) else one.loss.values_S
        first, last = float(loss_S[0]), present(one.loss.values_S)
        if not np.isfinite(last) or last > first > 0:
            return f"the training loss went from {first:.4g} to {last:.4g}", Severity.ERROR
        rises = np.flatnonzero(np.diff(loss_S[: begin + 1]) > 0)
        if len(rises):
            return (
                f"the training loss rose in round {int(rises[0]) + 1}, from "
                f"{loss_S[rises[0]]:.4g} to {loss_S[rises[0] + 1]:.4g}",
                Severity.WARNING,
            )
    judged = one.judged
    if judged is not None:
        took, after = since_best(one, judged)
        best, last = judged.last.best, present(judged.value_E)
        risen = (last - best) / abs(best) if best else 0.0
        at_once = took <= max(1.0, early * (took + after)) and risen > rise
        if at_once or (rate >= FAR and risen > FAR_RISE):
            return (
                f"{judged.last.operation} of {judged.last.site} was best after {took} of "
                f"{took + after} rounds ({best:.4g}), and is now {last:.4g}",
                Severity.WARNING,
            )
    return "", Severity.WARNING


def _stopped_at_once(one: Boosted, rate: float) -> bool:
    """Return whether early stopping ended training with the first round as the best."""
    if one.ended is None or one.began.stops_after is None or one.judged is None:
        return False
    took, after = since_best(one, one.judged)
    return rate >= FAR and took <= 1 and after >= one.began.stops_after
