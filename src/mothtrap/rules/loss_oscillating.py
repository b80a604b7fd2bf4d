"""LOS403: the loss jumps up and down from step to step."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Series, Window
from mothtrap.rules._losses import Judgment, finite_part, judge_series, require_scale
from mothtrap.rules._stretches import stretches


@frozen
class LossOscillating(Rule):
    """The loss jumps up and down from step to step.

    What it detects:
        A loss that changes direction at nearly every step, with swings that are large relative
        to its level, and makes no progress.

    Why it matters:
        Each step overshoots to the other side of the valley. The learning rate is at the edge of
        stability: with a slightly higher rate the loss diverges.

    Fires:
        When over `num_steps` steps the loss changes direction in at least `turns` of them, with
        a median swing of `swing` times its median, and the last third is at least `progress`
        times the first third. Warning if at least `calm` steps without oscillation came before.
        Otherwise info, because batches that alternate between two sources from the start look
        the same.

    Stays quiet:
        For batch noise, which changes direction in two steps out of three. For swings during
        which the loss falls. For losses that are negative or change sign.

    What to do:
        - Lower the learning rate by a factor of 3, or let it decay.
        - If batches alternate between sources, mix the sources within each batch.
        - Use a larger batch, which has less noise.
        - Lower the momentum, because it lengthens the steps.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    References:
        Cohen, Kaur, Li, Kolter, Talwalkar 2021, Gradient descent on neural networks
        typically occurs at the edge of stability, https://arxiv.org/abs/2103.00065
    """

    code = "LOS403"
    needs = (Need(scalars=("loss",)),)
    proof = Proof(title="Loss", scalars=("loss",), reference=("level",))
    explains = ("loss_not_decreasing",)
    passes = True

    num_steps: int = threshold(60, unit="steps of the series", source="chosen by hand")
    turns: float = threshold(
        0.9,
        unit="of the steps",
        source="pure noise: 2/3 of the steps; 0.9 over 60 steps is 4 standard errors above",
    )
    swing: float = threshold(
        0.1,
        unit="of the level of the loss",
        source="measured: full-batch logistic regression at twice the stable rate swings by 0.12 "
        "and more",
    )
    calm: int = threshold(20, unit="steps of the series", source="chosen by hand")
    progress: float = threshold(
        0.9, unit="of the initial level", source="chosen by hand: below it, the model learns"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the latest steps of every loss series."""
        return judge_series(self, window, self._judge)

    def _judge(self, series: Series) -> Judgment | None:
        steps_S, loss_S = finite_part(series)
        require_scale(loss_S)
        if len(loss_S) < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} losses, saw {len(loss_S)}")
        late_S = loss_S[-self.num_steps :]
        turned_S = _turned(late_S)
        level = float(np.median(late_S))
        swing = float(np.median(np.abs(np.diff(late_S)))) / level if level > 0 else 0.0
        third = len(late_S) // 3
        kept = float(np.median(late_S[-third:]) / max(np.median(late_S[:third]), 1e-300))
        share = float(turned_S.mean())
        if share < self.turns or swing < self.swing or kept < self.progress:
            return None
        # The oscillation started when nearly all steps began to change direction.
        first = _lasting(_turned(loss_S))
        return Judgment(
            severity=Severity.WARNING if first >= self.calm else Severity.INFO,
            step=int(steps_S[first]),
            last_step=int(steps_S[-1]),
            count=len(steps_S) - first,
            message=(
                f"the loss changes direction in {share:.0%} of the last {self.num_steps} steps, "
                f"by {swing:.0%} of its median {level:.3g} (limit {self.swing:.0%})"
            ),
            evidence={"value": swing, "limit": self.swing, "turns": share, "level": level},
        )


def _turned(loss_S: Floats) -> Bools:
    """Return whether the loss changed direction at each step but the first and last."""
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
