"""Loss series that rules can check, and evidence about them, shared by the loss rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import CannotJudge, NotApplicable, NotEnoughData
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.rule import Rule
from mothtrap.core.window import Floats, Ints, Series, Window

NEGLIGIBLE = 1e-6
"""A loss below this is solved, and too small to compare other losses with. Chosen by hand: in
float32 a loss of size 1 can fall below it, and the first step of Adam, whose size does not depend
on the gradient, raises it far above."""
SOLVED_STEPS = 20
"""Number of latest steps whose median shows whether a problem is solved; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """Verdict of a loss rule on one series; becomes a finding.

    `location`: None = the line of the loss.
    """

    severity: Severity
    step: int
    last_step: int
    count: int
    message: str
    evidence: dict[str, EvidenceValue]
    fixes: tuple[str, ...] | None = None
    layers: tuple[str, ...] = ()
    location: str | None = None
    why: str | None = None


def loss_series(window: Window) -> tuple[Series, ...]:
    """Return every loss series of training.

    Raises:
        NotEnoughData: No loss was recorded.
    """
    found = tuple(s for s in window.scalars("loss") if len(s))
    if not found:
        raise NotEnoughData("no loss was recorded")
    return found


def has_players(window: Window) -> bool:
    """Return whether optimizers that share no parameters minimize several losses in turn.

    In such a game (GAN, actor and critic) no single loss shows whether training goes well.
    Optimizers that run one after the other (pretraining, then fine-tuning) do not count.
    """
    players = [s for s in window.scalars("loss") if s.optimizers and len(s)]
    return any(
        not set(a.optimizers) & set(b.optimizers) and _in_turn(a, b)
        for i, a in enumerate(players)
        for b in players[i + 1 :]
    )


def _in_turn(a: Series, b: Series) -> bool:
    return bool(a.steps_S[0] <= b.steps_S[-1] and b.steps_S[0] <= a.steps_S[-1])


def loss_location(window: Window, optimizer: str) -> str | None:
    """Return the line of the first loss that an optimizer minimizes."""
    every = window.scalars("loss")
    return next((s.location for s in every if s.location and optimizer in s.optimizers), None)


def finite_part(series: Series) -> tuple[Ints, Floats]:
    """Return steps and values of a series without its non-finite values."""
    finite = np.isfinite(series.values_S)
    return series.steps_S[finite], series.values_S[finite]


def is_solved(window: Window) -> bool:
    """Return whether every loss has nearly reached 0, so that there is nothing left to learn."""
    every = [finite_part(series)[1][-SOLVED_STEPS:] for series in window.scalars("loss")]
    return any(len(last_S) for last_S in every) and all(
        float(np.median(np.abs(last_S))) < NEGLIGIBLE for last_S in every if len(last_S)
    )


def require_scale(values_S: Floats) -> None:
    """Raise NotApplicable if a loss is negative, because ratios are then meaningless."""
    if len(values_S) and float(values_S.min()) < 0:
        raise NotApplicable("the loss is sometimes negative, so ratios are meaningless")


def learning_rates(window: Window, series: Series) -> tuple[Ints, Floats]:
    """Return steps and learning rates of the optimizers of a series, the largest of each step.

    Empty if no learning rate was recorded.
    """
    own = [
        rate
        for rate in window.scalars("lr")
        if not series.optimizers or rate.of in series.optimizers
    ]
    if not own:
        return np.empty(0, dtype=np.int64), np.empty(0)
    if len(own) == 1:
        return own[0].steps_S, own[0].values_S
    steps_S = np.unique(np.concatenate([rate.steps_S for rate in own]))
    largest_S = np.zeros(len(steps_S))
    for rate in own:
        np.maximum.at(largest_S, np.searchsorted(steps_S, rate.steps_S), rate.values_S)
    return steps_S, largest_S


def judge_series(
    rule: Rule,
    window: Window,
    judge: Callable[[Series], Judgment | None],
) -> list[Finding]:
    """Call `judge` for every loss series, and report the worst verdict.

    Raises:
        CannotJudge: No series could be evaluated; has the reason of the last series.
    """
    reasons: list[CannotJudge] = []
    judged: list[tuple[Judgment, Series]] = []
    every = loss_series(window)
    for series in every:
        try:
            verdict = judge(series)
        except CannotJudge as reason:
            reasons.append(reason)
            continue
        if verdict:
            judged.append((verdict, series))
    if len(reasons) == len(every):
        raise reasons[-1]
    if not judged:
        return []
    verdict, series = min(judged, key=lambda pair: (pair[0].severity.rank, pair[0].step))
    found = rule.finding(
        window,
        severity=verdict.severity,
        step=verdict.step,
        last_step=verdict.last_step,
        count=verdict.count,
        message=verdict.message,
        evidence={**verdict.evidence, "series": series.of},
        location=verdict.location or series.location,
        fixes=verdict.fixes,
        layers=verdict.layers,
        why=verdict.why,
    )
    return [found]
