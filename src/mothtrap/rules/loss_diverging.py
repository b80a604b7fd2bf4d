"""LOS402: the loss rises and does not recover."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
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
"""Number of first losses whose median is the initial level; chosen by hand."""
SETTLING_STEPS = 50
"""Number of first losses whose maximum is the initial level if the loss starts near 0; chosen by
hand."""


@frozen
class LossDiverging(Rule):
    """The loss rises and does not recover.

    What it detects:
        A loss that rises above its earlier level and stays there or keeps rising.

    Why it matters:
        The optimizer moves away from the solution. The model loses what it has learned, and the
        loss often becomes NaN.

    Fires:
        Error when the loss is `runaway_ratio` times its initial level in `runaway_steps`
        consecutive steps, or at the last finite loss before NaN. Error when it stays above
        `lasting_ratio` times its initial level for `lasting_steps` steps without recovering.
        Error when it gives back `lost_share` of its earlier improvement and does not recover;
        warning at half of the improvement, or at `fallen_back` of it if the loss is `multiple`
        times its earlier level. Competing losses (GAN) get at most a warning.

    Stays quiet:
        For spikes that recover, learning-rate restarts, noise, and a loss near 0 that doubles.
        For a loss that starts near 0 and rises in the first optimizer steps. For a rise that is
        small compared with the earlier improvement. For a change of data after which the loss
        falls again. For losses that are negative or change sign (WGAN, policy gradients). For
        competing losses (GAN) and models that learn from their own output (target networks,
        rewarded policies), unless the loss reaches `runaway_ratio`. For the loss of an actor, if it
        is the value that a critic predicts. The finding ends when the loss recovers.

    What to do:
        - Lower the learning rate by a factor of 10, or warm it up.
        - PyTorch: Clip the gradient norm: `clip_grad_norm_(parameters, 1.0)`.
        - Keras: Clip the gradient norm: give the optimizer `global_clipnorm=1.0`.
        - JAX: Clip the gradient norm: `optax.clip_by_global_norm(1.0)`.
        - Inspect the batch of the step at which the loss started to rise.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=4.0)    # diverges
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 8.2,
        https://www.deeplearningbook.org
    """

    code = "LOS402"
    needs = (
        Need(scalars=("loss",)),
        Need(facts=(LossCall, BootstrappedTargets, PolicyLoss), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("level",), scale="log")
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

    runaway_ratio: float = threshold(100.0, unit="times the initial level", source="chosen by hand")
    runaway_steps: int = threshold(5, unit="consecutive steps", source="chosen by hand")
    lasting_ratio: float = threshold(3.0, unit="times the initial level", source="chosen by hand")
    lasting_steps: int = threshold(
        50, unit="steps", source="chosen by hand: spikes and restarts recover sooner"
    )
    lost_share: float = threshold(0.8, unit="of the earlier improvement", source="chosen by hand")
    fallen_back: float = threshold(
        0.25, unit="of the earlier improvement", source="chosen by hand: half of a usual warning"
    )
    multiple: float = threshold(
        4.0, unit="times the lowest level", source="chosen by hand: noise of batches stays below"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every loss series."""
        game, moves = has_players(window), targets_move(window)
        values = {one.location for one in window.seen(PolicyLoss) if one.by_value}

        def judge(series: Series) -> Judgment | None:
            # Values of a critic are no errors: they grow from 0 to the returns.
            return None if series.location in values else self._judge(series, game, moves)

        found = judge_series(self, window, judge)
        if not found:
            for series in loss_series(window):
                if series.location not in values:
                    self._require_low(series)
        return found

    def _judge(self, series: Series, game: bool, moves: bool) -> Judgment | None:
        _, loss_S = finite_part(series)
        require_scale(loss_S)
        broke = len(loss_S) < len(series) and not np.isfinite(series.values_S[-1])
        if len(loss_S) < 3 or (len(loss_S) < START_STEPS and not broke):
            raise NotEnoughData(f"needs {START_STEPS} losses, saw {len(loss_S)}")
        start = _start_level(series, loss_S)
        if start <= 0:
            return None  # multiples of 0 are meaningless
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
        # A loss that becomes infinite may have only a few finite values before.
        rising = broke and loss_S[-1] > limit and loss_S[-1] > loss_S[-2] > start
        if not (lasting or rising):
            return None
        return self._judgment(series, loss_S, start, 1.5 * start, Severity.ERROR)

    def _staying_above(self, series: Series, loss_S: Floats, start: float) -> Judgment | None:
        last = loss_S[-self.lasting_steps :]
        if len(loss_S) < self.lasting_steps + START_STEPS or _coming_back(last):
            return None
        above = float((last > self.lasting_ratio * start).mean())
        # Heavy-tailed losses are this large from the start.
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
        # The lower quartile: most of the last losses are higher.
        lost = (float(np.quantile(last, 0.25)) - best) / gained
        level = float(np.median(last))
        fell_back = level >= best + self.fallen_back * gained and level >= self.multiple * best
        if lost < 0.5 and not fell_back:
            return None
        severity = Severity.ERROR if lost >= self.lost_share else Severity.WARNING
        return self._judgment(series, loss_S, best, best + 0.25 * gained, severity)

    def _require_low(self, series: Series) -> None:
        """Raise NotEnoughData if a loss is so high that an earlier finding may still be active."""
        _, loss_S = finite_part(series)
        if len(loss_S) and loss_S.min() < 0:
            return  # losses that change sign are never evaluated
        if not np.isfinite(series.values_S[-1]):
            raise NotEnoughData("the latest loss is not finite")
        start = _start_level(series, loss_S)
        level = float(np.quantile(loss_S[-self.lasting_steps :], 0.25))
        if series.total > len(series):
            # The lowest loss may no longer be in the window: use half of the initial level.
            high = 0.5 * start
        else:
            best = float(block_medians(loss_S, 20).min(initial=start))
            gained = start - best
            high = best + 0.5 * gained if gained >= 0.3 * start else 1.5 * start
        if level > high > 0:
            raise NotEnoughData(f"the loss is still {level:.4g}: too early to decide")

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
        # The rise starts after the lowest point.
        lowest = int(np.argmin(_smooth(loss_S[: seen + 1])))
        onset = lowest + rise_begins(np.maximum(loss_S[lowest:], 1e-3 * level), seen - lowest)
        value = float(np.median(loss_S[-self.runaway_steps :]))
        return Judgment(
            severity=severity,
            step=int(steps_S[onset]),
            last_step=int(steps_S[-1]),
            count=len(loss_S) - onset,
            message=(
                f"the loss rose from {level:.4g} to {value:.4g} ({value / level:.3g}x) and did "
                f"not recover by step {steps_S[-1]}"
            ),
            evidence={
                "value": value,
                "level": level,
                "ratio": value / level,
                "limit": self.runaway_ratio,
            },
        )


def _start_level(series: Series, loss_S: Floats) -> float:
    """Return the initial level of the run, or of the window if that is higher."""
    count = START_STEPS if len(loss_S) >= 3 * START_STEPS else 3
    level = _beginning(loss_S[:count])
    early_S = series.early_S[np.isfinite(series.early_S)]
    if series.total > len(series) and len(early_S):
        level = max(level, _beginning(early_S))
    if 0 < level < NEGLIGIBLE:  # already solved: use the rise in the first steps as the scale
        if series.total < SETTLING_STEPS:
            raise NotEnoughData(f"the loss started at {level:.3g}: too early to decide")
        return float(np.max([*loss_S[:SETTLING_STEPS], *early_S]))
    return level


def _beginning(first_S: Floats) -> float:
    """Return the level of the first losses, without growth among them."""
    return float(min(np.median(first_S), max(first_S[0], np.min(first_S))))


def _smooth(loss_S: Floats) -> Floats:
    """Return medians of 5 values; shape (S,), ends shrunk."""
    padded = np.pad(loss_S, 2, mode="edge")
    medians: Floats = np.median(sliding_window_view(padded, 5), axis=1)
    return medians


def _coming_back(last_S: Floats) -> bool:
    """Return whether the newest of these losses are falling again."""
    third = len(last_S) // 3
    return bool(np.median(last_S[-third:]) < 0.9 * np.median(last_S[:third]))
