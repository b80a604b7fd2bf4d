"""Training runs of boosted trees in a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    ColumnsSeen,
    FeatureGains,
    GradientsGiven,
    ScoresSeen,
    TablesDiffer,
    TableSeen,
    TreesGrown,
)
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._evaluations import Evaluated, evaluated

OF_BOOSTED = Need(
    facts=(
        *(BoostingBegan, BoostingEnded, Evaluation, TableSeen, ColumnsSeen, TablesDiffer),
        *(TreesGrown, FeatureGains, GradientsGiven, ScoresSeen),
    ),
    scalars=("loss",),
    optional=True,
)
"""Everything that `boosted` reads."""
OfFitT = TypeVar("OfFitT", BoostingEnded, ColumnsSeen, GradientsGiven)
LATEST = 5
"""Number of evaluations whose median is the current loss, because single evaluations are noisy."""


PENALTIES = {
    **dict.fromkeys(("reg_lambda", "lambda_l2", "reg_alpha", "lambda_l1"), 1.0),
    "l2_leaf_reg": 3.0,
    "l2_regularization": 1.0,
}
"""Regularization parameters that shrink the leaf values, with their usual values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Boosted:
    """One training run: its settings, evaluations on held-out data, tables, and trees."""

    began: BoostingBegan
    evaluations: tuple[Evaluated, ...]
    tables: dict[str, TableSeen]
    trees: tuple[TreesGrown, ...]
    gains: FeatureGains | None
    loss: Series | None
    ended: BoostingEnded | None = None
    columns: ColumnsSeen | None = None
    differences: dict[str, TablesDiffer] = field(default_factory=dict)
    gradients: GradientsGiven | None = None
    scores: dict[str, ScoresSeen] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """Number of completed rounds, as far as is known."""
        if self.ended is not None:
            return self.ended.rounds
        if self.loss is not None:
            return len(self.loss)
        return self.judged.last.number + 1 if self.judged is not None else 0

    @property
    def held_out(self) -> tuple[str, ...]:
        """Call sites that evaluate held-out data."""
        return tuple(site for site in self.began.sites if site != self.began.train_site)

    @property
    def judged(self) -> Evaluated | None:
        """The evaluation that early stopping would use: the last evaluation of held-out data."""
        by_site = {one.last.site: one for one in self.evaluations}
        return next((by_site[site] for site in reversed(self.held_out) if site in by_site), None)


def boosted(window: Window) -> list[Boosted]:
    """Return the training runs of boosted trees.

    Raises:
        NotEnoughData: No boosting has begun.
    """
    found = window.once(_boosted)
    if not found:
        raise NotEnoughData("no boosting round was recorded")
    return found


def with_evaluation(one: Boosted) -> Evaluated:
    """Return the evaluation by which to judge a training run.

    Raises:
        NotApplicable: The script passes no evaluation set.
        NotEnoughData: No loss of the evaluation set was recorded.
    """
    if not one.held_out:
        raise NotApplicable("no evals were passed")
    if one.judged is None:
        raise NotEnoughData("no finite evaluation loss was recorded")
    return one.judged


def penalty_of(began: BoostingBegan) -> str:
    """Return the first penalty above 100 times its usual value, as `name=value`, or ""."""
    for name, usual in PENALTIES.items():
        value = number_of(began, name)
        if value > 100 * usual:
            return f"{name}={value:g}"
    return ""


def number_of(began: BoostingBegan, name: str) -> float:
    """Return a parameter as a number, or 0 if it is missing or not a number."""
    try:
        return float(began.parameters.get(name, "").strip("[]") or 0)
    except ValueError:
        return 0.0


def rounds_since_best(one: Boosted, judged: Evaluated) -> tuple[int, int]:
    """Return the number of rounds up to the best evaluation, and the number after it."""
    best = judged.last.best_step - one.began.step
    return best, judged.last.step - judged.last.best_step


def present(values: Floats) -> float:
    """Return the current level of a loss."""
    return float(np.median(values[-LATEST:]))


def judge_each(window: Window, judge: Callable[[Boosted], Found | None]) -> list[Found]:
    """Call `judge` for every training run; return the worst finding, with the library's advice.

    Raises:
        CannotJudge: No training run could be evaluated; has the reason of the first run.
    """
    found: list[Found] = []
    reasons: list[CannotJudge] = []
    every = boosted(window)
    for one in every:
        try:
            finding = judge(one)
        except CannotJudge as reason:
            reasons.append(reason)
            continue
        if finding is not None:
            found.append(replace(finding, library=one.began.library))
    if len(reasons) == len(every):
        raise reasons[0]
    return sorted(found, key=lambda one: (Severity(one.severity or "warning").rank, one.step))[:1]


def _boosted(window: Window) -> list[Boosted]:
    try:
        every = evaluated(window)
    except NotEnoughData:
        every = []
    losses = {series.of: series for series in window.scalars("loss", Mode.TRAIN)}
    found = []
    for began in window.seen(BoostingBegan):
        gains = [one for one in window.seen(FeatureGains) if one.fit == began.fit]
        sites = set(began.sites) - {began.train_site}
        found.append(
            Boosted(
                began=began,
                evaluations=tuple(one for one in every if one.last.site in sites),
                tables={t.site: t for t in window.seen(TableSeen) if t.fit == began.fit},
                trees=tuple(t for t in window.seen(TreesGrown) if t.fit == began.fit),
                gains=gains[-1] if gains else None,
                loss=losses.get(began.series),
                ended=_last(window, BoostingEnded, began),
                columns=_last(window, ColumnsSeen, began),
                differences={t.site: t for t in window.seen(TablesDiffer) if t.fit == began.fit},
                gradients=_last(window, GradientsGiven, began),
                scores={s.site: s for s in window.seen(ScoresSeen) if s.fit == began.fit},
            )
        )
    return found


def _last(window: Window, kind: type[OfFitT], began: BoostingBegan) -> OfFitT | None:
    """Return the latest fact of a kind about one training run."""
    found = [one for one in window.seen(kind) if one.fit == began.fit]
    return found[-1] if found else None
