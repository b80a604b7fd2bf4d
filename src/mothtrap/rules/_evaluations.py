"""Evaluation losses of each call site, shared by the rules on evaluations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, NormAverages
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.facts.workers import WeightsReturned
from mothtrap.core.findings import UNDONE
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints, Window

ALL_ROWS = 0.9
"""If this share of evaluation rows was trained on, all count as training rows; chosen by hand."""

COMPARABLE_RATIO = 10.0
"""A training loss that exceeds the evaluation loss by this factor has another scale, such as a sum
over the batch. It is rescaled at the first steady evaluation; chosen by hand."""
STEADY_SHARE = 0.5
"""An evaluation is steady if it keeps this share of the previous loss. While losses fall fast, the
mean loss before an evaluation is far above the loss after it; chosen by hand."""
LEAST_SHARE = 0.05
"""Share of all evaluations so far that a stretch must span, because some programs evaluate at
every step; chosen by hand."""

SETTLED = 0.2
"""An evaluation counts if less than this share of the running averages is their initial value;
chosen by hand: after 160 steps if each batch has a weight of 1 %, after 15 if it has 10 %."""
LEARNED = 0.4
"""Below this share of the first loss or the loss from guessing, an evaluation shows a model that
has learned: lagging averages did no harm. Chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """Evaluations of one call site in a window, oldest first.

    `value_E` are their finite losses, and `train_E` the mean training loss before each, or NaN.
    `last` is the latest evaluation.
    """

    step_E: Ints
    value_E: Floats
    train_E: Floats
    last: Evaluation

    @property
    def start(self) -> float:
        """The first evaluation loss, or the loss from guessing if that is higher."""
        return max(self.last.first, self.last.guess if self.last.guess is not None else -np.inf)

    def patience(self, evaluations: int) -> float:
        """Return how many consecutive evaluations correspond to `evaluations` in this run."""
        return max(evaluations, LEAST_SHARE * (self.last.number + 1))


def evaluated(window: Window) -> list[Evaluated]:
    """Return the evaluations by call site.

    Raises:
        NotEnoughData: No finite evaluation loss was recorded.
    """
    by_site: dict[str, list[Evaluation]] = {}
    for evaluation in window.seen(Evaluation):
        if np.isfinite(evaluation.value):
            by_site.setdefault(evaluation.site, []).append(evaluation)
    if not by_site:
        losses = any(len(series) for series in window.scalars("loss", Mode.EVAL))
        if losses or any(window.seen(Evaluation)):
            raise NotEnoughData("no finite evaluation loss was recorded")
        raise NotEnoughData("no evaluation loss was recorded")
    return [_of_site(evaluations) for evaluations in by_site.values()]


def without_early_stopping(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations of training runs that keep the last model, not the best model.

    Boosting with early stopping keeps its best round, and so does CatBoost: later rounds do no
    harm.

    Raises:
        NotApplicable: Every training run keeps its best round.
    """
    stopping = {
        site
        for one in window.seen(BoostingBegan)
        if one.stops_after or one.keeps_best
        for site in one.sites
    }
    others = [one for one in every if one.last.site not in stopping]
    if every and not others:
        raise NotApplicable("the library keeps the best round automatically")
    return others


def held_out(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations whose rows were not trained on, as far as is known.

    Raises:
        NotApplicable: All evaluated rows were trained on.
    """
    same = {
        one.source for one in window.seen(RowsShared) if one.shared >= ALL_ROWS * one.eval_rows > 0
    }
    others = [one for one in every if one.last.site not in same]
    if every and not others:
        raise NotApplicable("the evaluated rows are the training rows")
    return others


def went_back(window: Window, one: Evaluated, onset: int) -> tuple[str, dict[str, int]]:
    """Return words and evidence about a return to the weights from before `onset`.

    Both are empty if the run did not go back to such weights after its last evaluation.
    """
    for returned in window.seen(WeightsReturned):
        if returned.step >= one.step_E[-1] and returned.kept_step <= onset:
            words = f"; then the script went back to the weights of step {returned.kept_step}"
            return words, {UNDONE: returned.step}
    return "", {}


def initial_shares(window: Window, step_E: Ints) -> Floats:
    """Return, by step, the largest initial share of the running averages of any batch norm."""
    share_E = np.zeros(len(step_E))
    for norm in window.seen(NormAverages):
        updates_E = norm.updates + norm.per_step * np.maximum(step_E - norm.step, 0)
        known_E = step_E >= norm.step
        share_E = np.maximum(share_E, known_E * np.power(1.0 - norm.momentum, updates_E))
    return share_E


def of_new_rows(window: Window) -> list[Evaluated]:
    """Return the evaluations by call site that measure the kept model on new rows.

    Raises:
        NotEnoughData: No such loss was recorded.
        NotApplicable: All evaluations are of training rows, or the best round is kept anyway.
    """
    return settled(window, held_out(window, without_early_stopping(window, evaluated(window))))


def settled(window: Window, every: list[Evaluated]) -> list[Evaluated]:
    """Return the evaluations that are not distorted by lagging averages of batch norms.

    Earlier losses are meaningless, because they rise and fall with the averages. Once an evaluation
    shows that the model has learned, all later evaluations count.

    Raises:
        NotEnoughData: No evaluations are left.
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
        raise NotEnoughData(
            "the running averages of batch norms are still near their initial values"
        )
    return found


def _later(window: Window, one: Evaluated, chosen_E: Bools) -> Evaluated:
    """Keep the chosen evaluations, and set the first and the best loss to theirs."""
    step_E, value_E = one.step_E[chosen_E], one.value_E[chosen_E]
    last = structs.replace(one.last, first=float(value_E[0]))
    if initial_shares(window, np.array([last.best_step]))[0] >= SETTLED:
        best = int(value_E.argmin())
        last = structs.replace(last, best=float(value_E[best]), best_step=int(step_E[best]))
    return replace(one, step_E=step_E, value_E=value_E, train_E=one.train_E[chosen_E], last=last)


def trend(value_E: Floats) -> float:
    """Return the rank correlation of at least two values with their order, from -1 to 1."""
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
    """Return the mean training loss before each evaluation, for the most common series."""
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
