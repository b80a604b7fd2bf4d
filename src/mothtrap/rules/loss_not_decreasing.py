"""LOS401: the loss has not decreased since training started."""

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
from mothtrap.core.window import Floats, Ints, Series, Window
from mothtrap.rules._loss_calls import targets_move
from mothtrap.rules._losses import (
    Judgment,
    finite_part,
    has_players,
    judge_series,
    learning_rates,
    require_scale,
)
from mothtrap.rules._stretches import share_below

WARM_RATIO = 0.1
"""A rate below this share of the largest rate belongs to the warm-up; chosen by hand."""
FALLEN = 2.5
"""Multiple of the expected fall from which a loss has clearly fallen; chosen by hand."""


@frozen
class LossNotDecreasing(Rule):
    """The loss has not decreased since training started.

    What it detects:
        A loss that after `num_steps` steps is still at its initial level, without a downward
        trend.

    Why it matters:
        The model does not learn. Usually the gradient does not reach the weights, the learning
        rate is far too small or too large, or the targets are unrelated to the inputs.

    Fires:
        Warning when, over at least `num_steps` steps after warm-up, the median of the last fifth
        of the losses is less than `diff_percent` below the median of the first fifth, and late
        losses are below early losses in fewer than `trend_share` of all pairs. A flat loss is
        only a symptom, so the rule never reports an error; look for the cause in other findings.

    Stays quiet:
        During learning-rate warm-up. For a loss that fell earlier and is now at its floor or on
        a plateau. For a loss of 0. For losses that are negative or change sign (policy
        gradients, WGAN). For competing losses, each with its own optimizer and parameters (GAN).
        For models that learn from their own output (target networks, rewarded policies).

    What to do:
        - Look at some rows: does each target match its input, and does it have the shape that
          the loss expects?
        - Train on one small batch: if the model cannot fit it, gradients do not reach the
          weights.
        - Try a learning rate 10 times larger and 10 times smaller.

    Example:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-8)   # updates are too small
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    References:
        Goodfellow, Bengio, Courville 2016, Deep Learning, section 11.5, Debugging
        strategies, https://www.deeplearningbook.org
    """

    code = "LOS401"
    needs = (
        Need(scalars=("loss",)),
        Need(scalars=("lr",), optional=True),
        Need(facts=(LossCall, BootstrappedTargets), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("early",))
    explains = ("overtraining",)
    passes = True

    num_steps: int = threshold(
        150, unit="steps of the series after warm-up", source="chosen by hand"
    )
    diff_percent: float = threshold(2.0, unit="percent of the early loss", source="chosen by hand")
    trend_share: float = threshold(
        0.65,
        unit="share of late losses below early losses; 0.5 = no trend",
        source="chosen by hand: 2.6 standard errors with 50 early and 50 late losses",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every loss series from its start."""
        if targets_move(window):
            raise NotApplicable(
                "the model learns from its own output, so its loss does not have to decrease"
            )
        game = has_players(window)
        return judge_series(self, window, lambda series: self._judge(window, series, game))

    def _judge(self, window: Window, series: Series, game: bool) -> Judgment | None:
        steps_S, loss_S = finite_part(series)
        require_scale(loss_S)
        if game:
            raise NotApplicable(
                "several losses compete with each other, so they do not have to decrease"
            )
        if series.total > len(series):
            self._require_fall(series, loss_S)
            return None
        warm = _after_warm_up(window, series, steps_S)
        late_S = loss_S[warm:]
        if len(late_S) < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} steps after warm-up, saw {len(late_S)}")
        fifth, third = max(1, len(late_S) // 5), max(1, len(late_S) // 3)
        early, late = float(np.median(late_S[:fifth])), float(np.median(late_S[-fifth:]))
        fallen_percent = 100 * (early - late) / early if early > 0 else 100.0
        trend = share_below(late_S[-third:], late_S[:third])
        if fallen_percent >= self.diff_percent or trend >= self.trend_share:
            return None
        if self._fell_between(late_S, early):
            return None
        return Judgment(
            severity=Severity.WARNING,
            step=int(steps_S[warm]),
            last_step=int(steps_S[-1]),
            count=len(late_S),
            message=(
                f"the median loss was {early:.4g} in the first {fifth} "
                f"step{'s' * (fifth != 1)}{' after warm-up' if warm else ''} and is {late:.4g} "
                f"after {len(late_S)} steps (expected to fall by {self.diff_percent:g} %)"
            ),
            evidence={
                "early": early,
                "value": late,
                "fallen_percent": fallen_percent,
                "limit": self.diff_percent,
                "trend": trend,
            },
        )

    def _require_fall(self, series: Series, loss_S: Floats) -> None:
        """Check that a loss whose start was evaluated earlier has fallen since.

        Raises:
            NotApplicable: It has not, so an earlier finding has not ended.
        """
        late = float(np.median(loss_S[-max(1, len(loss_S) // 5) :]))
        if not late < series.first * (1 - FALLEN * self.diff_percent / 100):
            raise NotApplicable("the first losses are no longer in the window")

    def _fell_between(self, loss_S: Floats, early: float) -> bool:
        """Return whether the loss was clearly lower in between and rose again."""
        fifth = len(loss_S) // 5
        if not fifth:
            return False
        middle = [np.median(loss_S[i * fifth : (i + 1) * fifth]) for i in range(1, 4)]
        return bool(min(middle) < early * (1 - FALLEN * self.diff_percent / 100))


def _after_warm_up(window: Window, series: Series, steps_S: Ints) -> int:
    """Return how many values of the series belong to the warm-up.

    Raises:
        NotEnoughData: the learning rate is still rising.
    """
    rate_steps_S, rate_S = learning_rates(window, series)
    if not len(rate_S) or rate_S.max() <= 0:
        return 0
    recent = rate_S[-min(len(rate_S), 50) :]
    if rate_S[-1] > recent[0] and rate_S[-1] >= rate_S.max() and len(rate_S) >= 50:
        raise NotEnoughData("the learning rate is still warming up")
    warm = rate_steps_S[rate_S >= WARM_RATIO * rate_S.max()]
    return int(np.searchsorted(steps_S, warm[0]))
