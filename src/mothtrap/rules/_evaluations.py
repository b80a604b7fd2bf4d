"""Shared parts of the rules on evaluations: the losses of each call site over the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints, Window

ALL_ROWS = 0.9
"""Share of the rows of an evaluation from which on they are those of training; chosen by hand."""

COMPARABLE_RATIO = 10.0
"""Training losses this much above those of evaluation are on another scale (a sum over the
batch, say) and are brought to that of the first steady evaluation; chosen by hand."""
STEADY_SHARE = 0.5
"""Share of the evaluation before that one keeps which is steady: while losses tumble, the mean over
the steps before lies far above that behind them; chosen by hand."""
LEAST_SHARE = 0.05
"""Share of all evaluations so far that a stretch of them must span, as some programs evaluate
at every step; chosen by hand."""

SETTLED = 0.2
"""Share of running averages that is still their first value, below which an evaluation counts;
chosen by hand: 160 steps where a batch counts for 1 %, 15 where it counts for 10 %."""
LEARNED = 0.4
"""Share of the first loss, or of that of guessing, below which an evaluation has learned: lagging
averages do it no harm. Chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """The evaluations of one call site that a window shows, oldest first.

    `value_E` are its losses, finite, `train_E` the mean training loss before each, NaN where
    there was none; `last` is the latest of them with all that it knows of the run.
    """

    step_E: Ints
    value_E: Floats
    train_E: Floats
    last: Evaluation

    @property
    def start(self) -> float:
        """The loss from which validation has come down: the first, or that of guessing."""
        return max(self.last.first, self.last.guess if self.last.guess is not None else -np.inf)

    def patience(self, evaluations: int) -> float:
        """Return the number of consecutive evaluations that counts as `evaluations` of the run."""
        return max(evaluations, LEAST_SHARE * (self.last.number + 1))


def evaluated(window: Window) -> list[Evaluated]:
    """Return the evaluations by call site.

    Raises:
        NotEnoughData: no evaluation computed a loss that was seen, or none that is finite.
    """
    by_site: dict[str, list[Evaluation]] = {}
    for evaluation in window.seen(Evaluation):
        if np.isfinite(evaluation.value):
            by_site.setdefault(evaluation.site, []).append(evaluation)
    if not by_site:
        losses = any(len(series) for series in window.scalars("loss", Mode.EVAL))
        if losses or any(window.seen(Evaluation)):
            raise NotEnoughData("no evaluation with a finite loss was seen")
        raise NotEnoughData("no evaluation was seen that computes a loss")
    return [_of_site(evaluations) for evaluations in by_site.values()]


def without_early_stopping(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations of trainings that go on however these turn out.

    Boosting that stops early keeps its best round, and so does CatBoost without it: what follows
    does no harm.

    Raises:
        NotApplicable: there are no others.
    """
    stopping = {
        site
        for one in window.seen(BoostingBegan)
        if one.stops_after or one.keeps_best
        for site in one.sites
    }
    others = [one for one in every if one.last.site not in stopping]
    if every and not others:
        raise NotApplicable("the training keeps its best round by itself")
    return others


def held_out(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations of rows that were not trained on, so far as that was seen.

    Raises:
        NotApplicable: there are no others.
    """
    same = {
        one.source for one in window.seen(RowsShared) if one.shared >= ALL_ROWS * one.eval_rows > 0
    }
    others = [one for one in every if one.last.site not in same]
    if every and not others:
        raise NotApplicable("the rows that are evaluated are those that were trained on")
    return others


def initial_shares(window: Window, step_E: Ints) -> Floats:
    """Return, by step, which share of averages is their first value, of the slowest batch norm."""
    share_E = np.zeros(len(step_E))
    for norm in window.seen(NormAverages):
        updates_E = norm.updates + norm.per_step * np.maximum(step_E - norm.step, 0)
        known_E = step_E >= norm.step
        share_E = np.maximum(share_E, known_E * np.power(1.0 - norm.momentum, updates_E))
    return share_E


def of_new_rows(window: Window) -> list[Evaluated]:
    """Return the evaluations by call site that tell how a model does on rows that are new to it.

    Raises:
        NotEnoughData: no such loss was seen.
        NotApplicable: whatever is evaluated, worse losses do no harm.
    """
    return settled(window, held_out(window, without_early_stopping(window, evaluated(window))))


def settled(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations whose batch norms go by averages of what they were trained on.

    The loss of an earlier one says nothing: it rises and falls with the averages. Once one has
    learned, so do those after it.

    Raises:
        NotEnoughData: there are none.
    """
    found = []
    for one in every:
        has_learned_E = np.minimum.accumulate(one.value_E) < LEARNED * one.start
        counts_E = (initial_shares(window, one.step_E) < SETTLED) | has_learned_E
        if counts_E.all():
            found.append(one)
        elif counts_E.any():
            found.append(_later(window, one, counts_E))
    if every and not found:
        raise NotEnoughData("the averages of batch norms are still what they began with")
    return found


def _later(window: Window, one: Evaluated, chosen_E: Bools) -> Evaluated:
    """Return the evaluations that count, with the first and the best of these."""
    step_E, value_E = one.step_E[chosen_E], one.value_E[chosen_E]
    last = structs.replace(one.last, first=float(value_E[0]))
    if initial_shares(window, np.array([last.best_step]))[0] >= SETTLED:
        best = int(value_E.argmin())
        last = structs.replace(last, best=float(value_E[best]), best_step=int(step_E[best]))
    return replace(one, step_E=step_E, value_E=value_E, train_E=one.train_E[chosen_E], last=last)


def trend(value_E: Floats) -> float:
    """Return the rank correlation of values with their order, from -1 to 1; two at least."""
    rank_E = np.argsort(np.argsort(value_E))
    return float(np.corrcoef(rank_E, np.arange(len(value_E)))[0, 1])


def _of_site(evaluations: list[Evaluation]) -> Evaluated:
    value_E = np.array([evaluation.value for evaluation in evaluations])
    return Evaluated(
        step_E=np.array([evaluation.step for evaluation in evaluations], dtype=np.int64),
        value_E=value_E,
        train_E=_comparable(_training(evaluations), value_E),
        last=evaluations[-1],
    )


def _training(evaluations: list[Evaluation]) -> Floats:
    """The mean loss of training before each evaluation: of the series that most of them know."""
    counts: dict[str, int] = {}
    for evaluation in evaluations:
        for series in evaluation.train_losses:
            counts[series] = counts.get(series, 0) + 1
    series = max(counts, key=lambda name: counts[name], default="")
    means_E: Floats = np.array([one.train_losses.get(series, np.nan) for one in evaluations])
    return means_E


def _comparable(train_E: Floats, value_E: Floats) -> Floats:
    known = np.flatnonzero(np.isfinite(train_E))
    if not len(known):
        return train_E
    before_E, after_E = value_E[known[:-1]], value_E[known[1:]]
    steady = np.flatnonzero(after_E > STEADY_SHARE * before_E)
    first = known[1 + steady[0]] if len(steady) else known[0]
    if value_E[first] > 0 and train_E[first] > COMPARABLE_RATIO * value_E[first]:
        scaled_E: Floats = train_E * (value_E[first] / train_E[first])
        return scaled_E
    return train_E
