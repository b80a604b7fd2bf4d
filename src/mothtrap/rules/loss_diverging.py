"""LOS402: the loss rises and does not come back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._loss_calls import targets_move
from mothtrap.rules._losses import (
    NEGLIGIBLE,
    Judgment,
    finite_part,
    has_players,
    judge_series,
    loss_series,
    require_scale,
)
from mothtrap.rules._onset import rise_begins
from mothtrap.rules._stretches import block_medians

START_STEPS = 10
"""Losses whose median is the level of the beginning; chosen by hand."""
SETTLING_STEPS = 50
"""Losses whose highest is the level of the beginning where that is about 0; chosen by hand."""


@dataclass(frozen=True)
class LossDiverging(Rule):
    """The loss rises and does not come back.

    What it detects:
        A loss series that leaves its level upward and stays there or goes on rising.

    Why it matters:
        The optimizer moves away from the solution. What was learned is lost, and
        NaN often follows.

    Fires:
        Error when the loss runs away: `runaway_ratio` times the level of the
        beginning in `runaway_steps` steps running, or at the last finite loss before
        NaN; or when for `lasting_steps` steps it stays above `lasting_ratio` times
        the beginning, or has lost `lost_share` of all that it had gained, without
        coming back. Warning at half of what was gained, and in a game that runs away.

    Stays quiet:
        Spikes that recover, learning-rate restarts, noise, a loss near 0 that doubles,
        the rise of a loss that began at about 0, which the first steps of an optimizer lift,
        a rise that is small beside what the run has gained since its first steps, a change
        of data after which the loss falls again. Losses that are negative or change sign
        (WGAN, policy gradients). Until the loss runs away, players of a game (a GAN): one rises
        while the other wins; and models that learn from their own output (target networks,
        policies whose actions are rewarded). It passes when the loss comes back later.

    What to do:
        - Lower the learning rate, e.g. by 10, or warm it up.
        - PyTorch: Clip the gradient norm: `clip_grad_norm_(parameters, 1.0)`.
        - Keras: Clip the gradient norm: `global_clipnorm=1.0` of the optimizer.
        - JAX: Clip the gradient norm: `optax.clip_by_global_norm(1.0)`.
        - Look at the batches of the step at which it began.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=4.0)    # leaves the valley
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 8.2,
        https://www.deeplearningbook.org
    """

    code = "LOS402"
    needs = (
        Need(scalars=("loss",)),
        Need(facts=(LossCall, BootstrappedTargets), optional=True),
    )
    explains = (
        "nonfinite_loss",
        "nonfinite_gradient",
        "nonfinite_activation",
        "loss_not_decreasing",
        "weight_growth",
        "loss_oscillating",
        "loss_spike",
        "overtraining",
    )
    passes = True

    runaway_ratio: float = threshold(100.0, unit="times the early loss", source="chosen by hand")
    runaway_steps: int = threshold(5, unit="steps running", source="chosen by hand")
    lasting_ratio: float = threshold(3.0, unit="times the early loss", source="chosen by hand")
    lasting_steps: int = threshold(
        50, unit="steps", source="chosen by hand: spikes and restarts recover sooner"
    )
    lost_share: float = threshold(0.8, unit="of the fall since the start", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every loss series."""
        game, moves = has_players(window), targets_move(window)
        found = judge_series(self, window, lambda series: self._judge(series, game, moves))
        if not found:
            for series in loss_series(window):
                self._require_low(series)
        return found

    def _judge(self, series: Series, game: bool, moves: bool) -> Judgment | None:
        _, loss_S = finite_part(series)
        require_scale(loss_S)
        broke = len(loss_S) < len(series) and not np.isfinite(series.values_S[-1])
        if len(loss_S) < 3 or (len(loss_S) < START_STEPS and not broke):
            raise NotEnoughData(f"{len(loss_S)} losses were seen, {START_STEPS} are needed")
        start = _start_level(series, loss_S)
        if start <= 0:
            return None  # multiples of 0 mean nothing
        away = self._running_away(series, loss_S, start, broke)
        if away and game:
            away = replace(away, severity=Severity.WARNING)
        if away or moves or game:
            return away
        return self._staying_above(series, loss_S, start) or self._losing_gains(
            series, loss_S, start
        )

    def _running_away(
        self, series: Series, loss_S: Floats, start: float, broke: bool
    ) -> Judgment | None:
        limit = self.runaway_ratio * start
        last = loss_S[-self.runaway_steps :]
        lasting = len(last) == self.runaway_steps and last.min() > limit
        # On the way to infinity a handful of finite losses is all there is.
        rising = broke and loss_S[-1] > limit and loss_S[-1] > loss_S[-2] > start
        if not (lasting or rising):
            return None
        return self._judgment(series, loss_S, start, 1.5 * start, Severity.ERROR)

    def _staying_above(self, series: Series, loss_S: Floats, start: float) -> Judgment | None:
        last = loss_S[-self.lasting_steps :]
        if len(loss_S) < self.lasting_steps + START_STEPS or _coming_back(last):
            return None
        above = float((last > self.lasting_ratio * start).mean())
        # Heavy-tailed losses were already as large at the beginning.
        usual = float(np.max(loss_S[:START_STEPS]))
        if above < 0.9 or np.median(last) < usual:
            return None
        return self._judgment(series, loss_S, start, 1.5 * start, Severity.ERROR)

    def _losing_gains(self, series: Series, loss_S: Floats, start: float) -> Judgment | None:
        last = loss_S[-self.lasting_steps :]
        blocks = block_medians(loss_S[: -self.lasting_steps], 20)
        if len(blocks) < 2 or _coming_back(last):
            return None
        best = float(blocks.min())
        gained = start - best
        if gained < 0.3 * start:
            return None
        # The lower quartile: nearly all of the last losses lie that high.
        lost = (float(np.quantile(last, 0.25)) - best) / gained
        if lost < 0.5:
            return None
        severity = Severity.ERROR if lost >= self.lost_share else Severity.WARNING
        return self._judgment(series, loss_S, best, best + 0.25 * gained, severity)

    def _require_low(self, series: Series) -> None:
        """Raise NotEnoughData where a loss is so high that an earlier finding may still hold."""
        _, loss_S = finite_part(series)
        if len(loss_S) and loss_S.min() < 0:
            return  # a loss without a scale was never judged
        if not np.isfinite(series.values_S[-1]):
            raise NotEnoughData("the newest loss is not finite")
        start = _start_level(series, loss_S)
        level = float(np.quantile(loss_S[-self.lasting_steps :], 0.25))
        if series.total > len(series):
            # What the best was may have left the window: half of the start is above it.
            high = 0.5 * start
        else:
            best = float(block_medians(loss_S, 20).min(initial=start))
            gained = start - best
            high = best + 0.5 * gained if gained >= 0.3 * start else 1.5 * start
        if level > high > 0:
            raise NotEnoughData(f"the loss is at {level:.4g}: it is too early to say more")

    def _judgment(
        self,
        series: Series,
        loss_S: Floats,
        level: float,
        band: float,
        severity: Severity,
    ) -> Judgment:
        steps_S, _ = finite_part(series)
        usual = np.flatnonzero(loss_S <= band)
        seen = min(int(usual[-1]) + 1 if len(usual) else 0, len(loss_S) - 1)
        # Before its lowest point the loss was still falling.
        lowest = int(np.argmin(_smooth(loss_S[: seen + 1])))
        onset = lowest + rise_begins(np.maximum(loss_S[lowest:], 1e-3 * level), seen - lowest)
        value = float(np.median(loss_S[-self.runaway_steps :]))
        return Judgment(
            severity=severity,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(loss_S) - onset,
            message=(
                f"the loss has risen to {value:.4g} from {level:.4g} "
                f"({value / level:.3g}x) and had not come back by step {steps_S[-1]}"
            ),
            evidence={
                "value": value,
                "level": level,
                "ratio": value / level,
                "limit": self.runaway_ratio,
            },
        )


def _start_level(series: Series, loss_S: Floats) -> float:
    """Return the level of the beginning: of the run, or of the window if that is higher."""
    count = START_STEPS if len(loss_S) >= 3 * START_STEPS else 3
    level = _beginning(loss_S[:count])
    early_S = series.early_S[np.isfinite(series.early_S)]
    if series.total > len(series) and len(early_S):
        level = max(level, _beginning(early_S))
    if 0 < level < NEGLIGIBLE:  # a solved problem: what the optimizer does to it is the scale
        if series.total < SETTLING_STEPS:
            raise NotEnoughData(f"the loss began at {level:.3g}: it is too early to say more")
        return float(np.max([*loss_S[:SETTLING_STEPS], *early_S]))
    return level


def _beginning(first_S: Floats) -> float:
    """Return the level of the first losses; growth among them must not raise it."""
    return float(min(np.median(first_S), max(first_S[0], np.min(first_S))))


def _smooth(loss_S: Floats) -> Floats:
    """Return medians of 5 values; shape (S,), ends shrunk."""
    padded = np.pad(loss_S, 2, mode="edge")
    medians: Floats = np.median(sliding_window_view(padded, 5), axis=1)
    return medians


def _coming_back(last_S: Floats) -> bool:
    """Return whether the newest of these losses are on their way down again."""
    third = len(last_S) // 3
    return bool(np.median(last_S[-third:]) < 0.9 * np.median(last_S[:third]))
