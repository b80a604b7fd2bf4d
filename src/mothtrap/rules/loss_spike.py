"""LOS404: the loss jumps up in one step."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._batch_rows import has_few_rows
from mothtrap.rules._loss_calls import targets_move
from mothtrap.rules._losses import (
    Judgment,
    finite_part,
    has_players,
    judge_series,
    learning_rates,
    require_scale,
)

RATE_STEPS = 10
"""Steps before a jump in which a rise of the learning rate counts as its cause; chosen by
hand."""
RATE_RATIO = 2.0
"""Rise of the learning rate that counts as a restart; chosen by hand."""
MAD_TO_STD = 1.4826
"""Ratio of standard deviation and median absolute deviation of normal noise."""


@frozen
class LossSpike(Rule):
    """The loss jumps up in one step.

    What it detects:
        A loss that is far above the losses of the steps before it, relative to their spread.

    Why it matters:
        One bad batch or one oversized step can undo much of the training. If the loss does not
        recover, the weights have left the region of low loss.

    Fires:
        When a loss is more than `z` robust standard deviations above the median of the `before`
        previous steps, at least `ratio` times that median, and at least `height` of the first
        loss above it. Warning when the median of the `after` next steps is still `ratio` times
        the median before, and at least `lasting` of the first loss above it. Info when the loss
        recovered.

    Stays quiet:
        For batch noise, even heavy-tailed noise at a low loss. For jumps at a restart of the
        learning rate. In the first `before` steps. For losses that are negative or change sign,
        GAN losses, models that learn from their own output (target networks, rewarded policies),
        and batches of up to four rows.

    What to do:
        - Inspect the batch of that step for corrupt rows, outliers, and wrong labels.
        - PyTorch: Clip the gradient norm: `clip_grad_norm_(parameters, 1.0)`.
        - Keras: Clip the gradient norm: give the optimizer `global_clipnorm=1.0`.
        - JAX: Clip the gradient norm: `optax.clip_by_global_norm(1.0)`.
        - Lower the learning rate, or with Adam the second beta (0.95 instead of 0.999).

    Example:
        loss.backward(); optimizer.step()         # one broken batch moves all weights
        loss.backward(); clip_grad_norm_(model.parameters(), 1.0); optimizer.step()

    References:
        Takase, Kiyono, Kobayashi, Suzuki 2023, Spike No More: stabilizing the pre-training
        of large language models, https://arxiv.org/abs/2312.16903
    """

    code = "LOS404"
    needs = (
        Need(scalars=("loss",)),
        Need(scalars=("lr",), optional=True),
        Need(facts=(LossCall, BootstrappedTargets), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("median", "limit"), scale="log")
    explains = ("loss_not_decreasing", "loss_diverging")

    z: float = threshold(
        10.0, unit="robust standard deviations", source="chosen by hand: noise stays below it"
    )
    ratio: float = threshold(2.0, unit="times the median before", source="chosen by hand")
    height: float = threshold(0.2, unit="of the first loss", source="chosen by hand")
    lasting: float = threshold(
        0.05, unit="of the first loss", source="chosen by hand: smaller jumps do little harm"
    )
    before: int = threshold(50, unit="steps", source="chosen by hand")
    after: int = threshold(30, unit="steps", source="chosen by hand: most spikes end sooner")

    def check(self, window: Window) -> list[Finding]:
        """Check every loss series."""
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        if targets_move(window):
            raise NotApplicable("targets come from the model's own output, so they can jump")
        if has_few_rows(window):
            raise NotApplicable("batches are so small that one hard row can cause a spike")
        return judge_series(self, window, lambda series: self._judge(window, series))

    def _judge(self, window: Window, series: Series) -> Judgment | None:
        steps_S, loss_S = finite_part(series)
        require_scale(loss_S)
        if len(loss_S) <= self.before + self.after:
            raise NotEnoughData(f"needs {self.before + self.after + 1} losses, saw {len(loss_S)}")
        start = series.first if np.isfinite(series.first) else float(loss_S[0])
        spikes = [
            (recovered, place, level)
            for place, level in self._spikes(loss_S, start)
            if not _restarted(window, series, int(steps_S[place]))
            and (recovered := self._recovers(loss_S, place, level, start)) is not None
        ]
        if not spikes:
            return None
        recovered, place, level = min(spikes)
        value = float(loss_S[place])
        return Judgment(
            severity=Severity.INFO if recovered else Severity.WARNING,
            step=int(steps_S[place]),
            last_step=int(steps_S[max(place for _, place, _ in spikes)]),
            count=len(spikes),
            message=(
                f"the loss jumped to {value:.3g}, {_times(value, level)}the median {level:.3g} of "
                f"the previous {self.before} steps"
                + (
                    "; it recovered"
                    if recovered
                    else f"; the median of the next {self.after} steps is still at least "
                    f"{self.ratio:g}x as high"
                )
            ),
            evidence={
                "value": value,
                "median": level,
                "limit": self.ratio,
                "recovered": recovered,
            },
        )

    def _spikes(self, loss_S: Floats, start: float) -> list[tuple[int, float]]:
        """Return the index at which each spike starts, and the level before it."""
        later_S, before_SW = loss_S[self.before :], _windows(loss_S[:-1], self.before)
        jump = self.height * abs(start)
        # Medians are expensive: compute them only if the loss is far above the recent minimum.
        (places,) = np.nonzero(later_S > before_SW.min(axis=1) + jump)
        level_P = np.median(before_SW[places], axis=1)
        scatter_P = np.median(np.abs(before_SW[places] - level_P[:, None]), axis=1)
        over_P = later_S[places] - level_P
        spikes_P = (
            (over_P > self.z * MAD_TO_STD * scatter_P)
            & (later_S[places] > self.ratio * level_P)
            & (over_P > jump)
        )
        places, level_P = places[spikes_P], level_P[spikes_P]
        begins_P = np.diff(places, prepend=-self.after) >= self.after
        return [
            (int(place) + self.before, float(level))
            for place, level in zip(places[begins_P], level_P[begins_P], strict=True)
        ]

    def _recovers(self, loss_S: Floats, place: int, level: float, start: float) -> bool | None:
        """Return whether the loss recovered; None while that is unknown."""
        later_S = loss_S[place + 1 : place + 1 + self.after]
        if len(later_S) < self.after:
            return None
        late = float(np.median(later_S))
        return late < self.ratio * level or late - level < self.lasting * abs(start)


def _windows(values_S: Floats, size: int) -> Floats:
    windows: Floats = np.lib.stride_tricks.sliding_window_view(values_S, size)
    return windows


def _restarted(window: Window, series: Series, step: int) -> bool:
    """Return whether the learning rate rose sharply just before a step."""
    steps_S, rate_S = learning_rates(window, series)
    recent_S = rate_S[(steps_S >= step - RATE_STEPS) & (steps_S <= step)]
    return len(recent_S) > 1 and float(recent_S.max()) > RATE_RATIO * float(recent_S.min())


def _times(value: float, level: float) -> str:
    return f"{value / level:.3g}x " if level > 0 else "from "
