"""LOS403: the loss jumps up and down from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Series, Window
from mothtrap.rules._losses import Judgment, finite_part, judge_series, require_scale
from mothtrap.rules._stretches import stretches


@dataclass(frozen=True)
class LossOscillating(Rule):
    """The loss jumps up and down from step to step.

    What it detects:
        Swings of the loss that change direction at nearly every step, large next to its
        level, without progress beneath them.

    Why it matters:
        The steps jump from one wall of the valley to the other. The learning rate is at the
        edge of what the loss surface bears: a little more and it diverges.

    Fires:
        When over `num_steps` steps the loss turned around in at least `turns` of them, with
        swings of `swing` times its level (medians), and the level of the last third is no
        lower than `progress` of that of the first third. Warning where `calm` steps went
        before in which it did not; else info, as batches of two kinds that take turns from the
        start (several tasks, say) look the same.

    Stays quiet:
        Noise of batches, which turns around two times out of three. Swings under which the
        loss falls. Losses that are negative or change sign.

    What to do:
        - Lower the learning rate, e.g. by 3, or let it decay.
        - Where batches of several sources take turns, mix the sources within each batch.
        - Use a larger batch where batches are small.
        - Lower the momentum, which makes long steps longer.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    References:
        Cohen, Kaur, Li, Kolter, Talwalkar 2021, Gradient descent on neural networks
        typically occurs at the edge of stability, https://arxiv.org/abs/2103.00065
    """

    code = "LOS403"
    needs = (Need(scalars=("loss",)),)
    explains = ("loss_not_decreasing",)
    passes = True

    num_steps: int = threshold(60, unit="steps of the series", source="chosen by hand")
    turns: float = threshold(
        0.9,
        unit="of the steps",
        source="pure noise turns in 2/3 of them; 0.9 over 60 steps lies 4 standard errors above",
    )
    swing: float = threshold(
        0.1,
        unit="of the level of the loss",
        source="measured: full-batch logistic regression at twice the stable rate swings by 0.12 "
        "and more",
    )
    calm: int = threshold(20, unit="steps of the series", source="chosen by hand")
    progress: float = threshold(
        0.9, unit="of the level at the beginning", source="chosen by hand: below, it learns"
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge the latest steps of every loss series."""
        return judge_series(self, window, self._judge)

    def _judge(self, series: Series) -> Judgment | None:
        steps_S, loss_S = finite_part(series)
        require_scale(loss_S)
        if len(loss_S) < self.num_steps:
            raise NotEnoughData(f"{len(loss_S)} losses were seen, {self.num_steps} are needed")
        late_S = loss_S[-self.num_steps :]
        turned_S = _turned(late_S)
        level = float(np.median(late_S))
        swing = float(np.median(np.abs(np.diff(late_S)))) / level if level > 0 else 0.0
        third = len(late_S) // 3
        kept = float(np.median(late_S[-third:]) / max(np.median(late_S[:third]), 1e-300))
        share = float(turned_S.mean())
        if share < self.turns or swing < self.swing or kept < self.progress:
            return None
        # It has lasted as long as nearly all steps turn around.
        first = _lasting(_turned(loss_S))
        return Judgment(
            severity=Severity.WARNING if first >= self.calm else Severity.INFO,
            step=int(steps_S[first]),
            last_step=int(steps_S[-1]),
            count=len(steps_S) - first,
            message=(
                f"the loss turns around at {share:.0%} of the last {self.num_steps} steps, by "
                f"{swing:.0%} of its level {level:.3g} (expected below {self.swing:.0%})"
            ),
            evidence={"value": swing, "limit": self.swing, "turns": share, "level": level},
        )


def _turned(loss_S: Floats) -> Bools:
    """Return whether the loss changed its direction, at all but the first and last step."""
    change_S = np.diff(loss_S)
    turned: Bools = change_S[1:] * change_S[:-1] < 0
    return turned


def _lasting(turned_S: Bools) -> int:
    """Return the start of the latest stretch without two consecutive steps in one direction."""
    steady_S = ~turned_S
    calm = np.flatnonzero(steady_S[1:] & steady_S[:-1])
    runs = stretches(turned_S)
    after = int(calm[-1]) + 2 if len(calm) else 0
    return next((start for start, _ in runs if start >= after), len(turned_S) - 1)
