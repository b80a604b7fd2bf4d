"""OPT603: updates are so small that the weights hardly change over the whole run."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._losses import finite_part, has_players, learning_rates, loss_series
from mothtrap.rules._stretches import last_stretch
from mothtrap.rules._weights import (
    WEIGHTS,
    Ratios,
    optimizer_facts,
    optimizer_location,
    update_ratios,
)

STILL_WARMING = ", whose warm-up has not ended"
SHORTER_WARM_UP = "Shorten the warm-up, so that it ends after 3 to 10 % of the steps."
NOT_DECAYED = 0.2
"""Share of the largest rate above which the median rate shows no decay; chosen by hand."""
STEADY = 0.3
"""Share of the largest rate above which a rate counts as steady; chosen by hand."""
PARTS = 6
"""Number of equal parts whose mean losses are compared; chosen by hand."""
UNUSUAL_EPSILON = 1e-3
"""Epsilon of an optimizer that may be the reason for small steps; the defaults are 1e-8 to 1e-6."""
CRAWL_FACTOR = 10.0
"""Factor by which the rate is raised first; chosen by hand."""


@frozen
class LearningRateTooLow(Rule):
    """Updates are so small that the weights hardly change over the whole run.

    What it detects:
        Hundreds of training steps that hardly change any weight, while the loss stays at its
        initial value, or falls ever faster and is still high at the end.

    Why it matters:
        Training runs for hours, and the weights stay close to their initial values. It looks as
        if the model cannot learn the task.

    Fires:
        Warning when, over `steps` steps at a steady rate, each step changes every weight by less
        than `step_share` of its norm, all steps together by less than `moved_share`, and the
        loss is within `fallen_share` of its initial value. Also when, over `crawl_steps` steps at
        a steady rate, each step changes every weight by less than `crawl_share` of its norm, and
        the loss, still above `crawl_level` times its initial value, falls at least as fast at the
        end as at the beginning. Also after `certain_steps` steps at a rate that has not decayed, if
        the largest change of a weight in one step, times the number of steps, is less than
        `certain_share` times `moved_share` of its norm.

    Stays quiet:
        During a warm-up that already changes the weights. For rates that have decayed, a rate of 0
        (see OPT601), losses that fall more and more slowly, and fine-tuning that starts at a low
        loss, if the weights change.

    What to do:
        - Raise the learning rate by a factor of 10 to 1000: 1e-3 is usual for Adam, 0.01 to 0.1
          for SGD. Or increase it until the loss rises, and use a third of that rate.
        - Look for a factor that scales the rate down: a schedule, a division by the number of
          batches, a multiplier of the parameter group.
        - Check that nothing scales the gradient down: a mean over too many elements, clipping
          to a tiny norm, a large epsilon of the optimizer.

    Example:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    References:
        Smith 2017, Cyclical learning rates for training neural networks,
        https://arxiv.org/abs/1506.01186
    """

    code = "OPT603"
    needs = (
        *WEIGHTS,
        Need(scalars=("loss", "lr")),
        Need(facts=(OptimizerFacts,), optional=True),
    )
    proof = Proof(
        title="Change of the weights by a step, relative to their norm",
        statistic="weight.update_ratio",
        scale="log",
    )
    passes = True
    explains = (
        *UNLEARNED,
        "overtraining",
        "update_ratio",
    )

    steps: int = threshold(200, unit="steps at a steady rate", source="chosen by hand")
    moved_share: float = threshold(
        0.05, unit="of the norm, over all steps", source="measured: 0.2 and more in runs that learn"
    )
    certain_share: float = threshold(
        0.1, unit="of `moved_share`, at the largest step", source="chosen by hand"
    )
    certain_steps: int = threshold(60, unit="steps at any rate", source="chosen by hand")
    step_share: float = threshold(
        1e-4, unit="of the norm per step", source="a tenth of the usual 1e-3"
    )
    fallen_share: float = threshold(0.05, unit="of the first losses", source="chosen by hand")
    crawl_steps: int = threshold(300, unit="steps at a steady rate", source="chosen by hand")
    crawl_share: float = threshold(
        1.5e-3,
        unit="of the norm per step",
        source="measured on a series of rates: 1.1e-3 at a tenth of the usual rate",
    )
    crawl_level: float = threshold(0.5, unit="of the first losses", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every loss together with the updates of its optimizers."""
        every = loss_series(window)
        if has_players(window):
            raise NotApplicable("different optimizers minimize different losses in turn")
        ratios = update_ratios(window)
        if ratios is None:
            raise NotEnoughData("no weight update was recorded")
        if max(series.total for series in every) < self.steps:
            raise NotEnoughData(f"fewer than {self.steps} losses were recorded")
        found = [finding for s in every if (finding := self._judge(window, s, ratios))]
        return found[:1]

    def _judge(self, window: Window, series: Series, ratios: Ratios) -> Finding | None:
        _, loss_S = finite_part(series)
        if len(loss_S) >= self.certain_steps and loss_S.min() >= 0:
            rates = learning_rates(window, series)[1]
            every = ratios.largest()
            most = float(np.nanmax(every)) if len(every) else 0.0
            steady = len(rates) > 0 and float(np.median(rates)) > NOT_DECAYED * rates.max() > 0
            if steady and self._is_certainly_unmoved(series, loss_S, most):
                rate = float(rates.max())
                warming = rates[-1] > 0.99 * rate and rates[len(rates) // 2] < 0.6 * rate
                return self._unmoved(window, series, loss_S, most, rate, warming=bool(warming))
        rated_S, rate_S = learning_rates(window, series)
        if len(loss_S) < self.steps or len(rate_S) < self.steps or rate_S.max() <= 0:
            return None
        steady = rate_S >= STEADY * rate_S.max()
        stretch = last_stretch(steady)
        if stretch is None or stretch[1] - stretch[0] < self.steps or loss_S.min() < 0:
            return None
        sampled = ratios.largest()[ratios.steps_S >= int(rated_S[stretch[0]])]
        largest = float(np.median(sampled)) if len(sampled) else 0.0
        if largest <= 0:
            return None
        rate = float(rate_S[-1])
        if self._stands(series, loss_S, largest):
            return self._unmoved(window, series, loss_S, largest, rate)
        steady_S = loss_S[-(stretch[1] - stretch[0]) :]
        if largest < self.crawl_share and self._speeds_up(series, steady_S):
            return self._crawling(window, series, steady_S, largest, rate)
        return None

    def _is_certainly_unmoved(self, series: Series, loss_S: Floats, most: float) -> bool:
        """Return whether the weights would hardly change even if all steps were the largest."""
        moved = most * series.total
        return 0 < moved < self.certain_share * self.moved_share and self._stands(
            series, loss_S, most
        )

    def _stands(self, series: Series, loss_S: Floats, largest: float) -> bool:
        """Return whether the loss and the weights are where they began."""
        first, last = _ends(series, loss_S)
        is_high = first > 0 and last >= (1 - self.fallen_share) * first
        return is_high and largest < self.step_share and largest * series.total < self.moved_share

    def _speeds_up(self, series: Series, steady_S: Floats) -> bool:
        """Return whether the loss falls all the time, and not more slowly than at first."""
        if len(steady_S) < self.crawl_steps or series.total > len(series):
            return False
        level_P = np.array([part.mean() for part in np.array_split(steady_S, PARTS)])
        fall_P = -np.diff(level_P)
        return bool(
            fall_P.min() > 0
            and fall_P[-2:].mean() >= fall_P[:2].mean()
            and level_P[-1] >= self.crawl_level * level_P[0]
        )

    def _unmoved(
        self,
        window: Window,
        series: Series,
        loss_S: Floats,
        largest: float,
        rate: float,
        *,
        warming: bool = False,
    ) -> Finding:
        moved = largest * series.total
        first, last = _ends(series, loss_S)
        factor = min(1e4, 10.0 ** np.floor(np.log10(self.moved_share * 10 / moved)))
        return self._finding(
            window,
            series,
            message=(
                f"with a learning rate of {rate:.3g}{STILL_WARMING if warming else ''}, "
                f"{series.total} steps changed no weight by "
                f"more than {100 * moved:.2g} % of its norm (limit {100 * self.moved_share:g} %); "
                f"the loss went from {first:.4g} to {last:.4g}"
            ),
            evidence={"value": largest, "moved_share": moved, "limit": self.moved_share},
            rate=rate,
            wanted=rate * max(10.0, factor),
            first_fix=SHORTER_WARM_UP if warming else "",
        )

    def _crawling(
        self, window: Window, series: Series, steady_S: Floats, largest: float, rate: float
    ) -> Finding:
        first, last = (float(np.median(part)) for part in (steady_S[:20], steady_S[-20:]))
        return self._finding(
            window,
            series,
            message=(
                f"with a learning rate of {rate:.3g}, the loss fell from {first:.4g} to only "
                f"{last:.4g} in {series.total} steps, and falls as fast as at the beginning; a "
                f"step changes no weight by more than {100 * largest:.2g} % of its norm (limit "
                f"{100 * self.crawl_share:g} %)"
            ),
            evidence={"value": largest, "limit": self.crawl_share, "first_loss": first},
            rate=rate,
            wanted=rate * CRAWL_FACTOR,
        )

    def _finding(
        self,
        window: Window,
        series: Series,
        *,
        message: str,
        evidence: dict[str, EvidenceValue],
        rate: float,
        wanted: float,
        first_fix: str = "",
    ) -> Finding:
        optimizer = series.optimizers[0] if series.optimizers else ""
        known = optimizer_facts(window).get(optimizer)
        if known is not None and (known.epsilon or 0.0) >= UNUSUAL_EPSILON:
            message += f"; {optimizer} divides by a large epsilon, {known.epsilon:g}"
            first_fix = f"Use the default epsilon of {optimizer}, about 1e-8."
        whole = series.total <= len(series)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(series.steps_S[0]) if whole else 0,
            last_step=int(series.steps_S[-1]),
            count=series.total,
            message=message,
            evidence={**evidence, "learning_rate": rate, "optimizer": optimizer},
            fixes=(
                first_fix or f"Raise the learning rate from {rate:.3g} to about {wanted:.0e}.",
                *self.fixes(window)[1:],
            ),
            location=optimizer_location(window, optimizer),
        )


def _ends(series: Series, loss_S: Floats) -> tuple[float, float]:
    """Return the first and the last level of the loss."""
    is_whole = series.total <= len(series)
    first = float(np.median(loss_S[:20])) if is_whole else series.first
    return first, float(np.median(loss_S[-50:]))
