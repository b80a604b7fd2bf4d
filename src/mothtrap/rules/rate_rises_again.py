"""OPT621: the learning rate falls to almost zero and climbs back again and again."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Series, Window

HIGH = 0.5
"""Share of the largest rate that counts as high."""
LEAST_WAY = 3
"""Minimum number of steps from high to low, and back, for a gradual change."""
UNEVEN = 2.0
"""Largest ratio of the length of a climb and of a fall, if both belong to one wave."""


@frozen
class RateRisesAgain(Rule):
    """The learning rate falls to almost zero and climbs back again and again.

    What it detects:
        A learning rate that goes up and down like a wave, as a cosine schedule does when it is
        called after its end.

    Why it matters:
        A cosine continues after its end and climbs back to the full rate. If a schedule that plans
        for epochs is called in every step, the rate goes up and down many times in each pass. The
        training never has the long phase of small rates that the schedule is for.

    Fires:
        Warning when the rate has fallen gradually to less than `low` of its largest value and
        climbed back gradually at least `times` times, at least `per_pass` times in each pass over
        the training data. Info if the pass is longer or unknown, because a cyclical schedule may be
        intended.

    Stays quiet:
        Rates that jump up (warm restarts), climb much faster or more slowly than they fall, or do
        not become small. A single fall and climb.

    What to do:
        - Plan for the number of calls: `T_max=epochs * len(loader)` with one call per step.
        - Or call `scheduler.step()` once per epoch, after the inner loop.
        - Stop at the end of the schedule: `min(step, total) / total`.

    Example:
        scheduler = CosineWarmup(optimizer, max_iters=epochs)                  # called per step
        scheduler = CosineWarmup(optimizer, max_iters=epochs * len(loader))

    References:
        Loshchilov, Hutter 2017, SGDR: Stochastic gradient descent with warm restarts,
        https://arxiv.org/abs/1608.03983
    """

    code = "OPT621"
    title = "learning rate rises again"
    needs = (
        Need(scalars=("lr",), steps=2000),
        Need(facts=(LoaderBegan,), optional=True),
    )
    explains = ("loss_not_decreasing", "loss_oscillating", "loss_spike")

    low: float = threshold(0.02, unit="of the largest rate", source="chosen by hand")
    times: int = threshold(3, unit="falls and climbs", source="chosen by hand")
    per_pass: float = threshold(
        2.0,
        unit="falls and climbs in a pass over the data",
        source="Smith 2017 recommends cycles of 4 passes and more",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the learning rate of every optimizer."""
        rates = [one for one in window.scalars("lr") if len(one) >= self.times * 2 * LEAST_WAY]
        if not rates:
            raise NotEnoughData("the learning rate was recorded in too few steps")
        return [found for one in rates if (found := self._judge(window, one))][:1]

    def _judge(self, window: Window, rate: Series) -> Finding | None:
        finite_S = np.isfinite(rate.values_S)
        steps_S, rate_S = rate.steps_S[finite_S], rate.values_S[finite_S]
        largest = float(rate_S.max(initial=0.0))
        if largest <= 0:
            return None
        low_V = _valleys(rate_S / largest, self.low)
        if len(low_V) < self.times:
            return None
        at_V = steps_S[low_V]
        period = float(np.diff(at_V).mean())
        batches = _batches(window)
        often = batches > 0 and self.per_pass * period <= batches
        known = f", {batches / period:.3g} times in each pass over the data" if often else ""
        return self.finding(
            window,
            severity=Severity.WARNING if often else Severity.INFO,
            step=int(at_V[0]),
            last_step=int(at_V[-1]),
            count=len(at_V),
            message=(
                f"the learning rate of {rate.of or 'the optimizer'} fell to almost 0 and climbed "
                f"back to {largest:.3g} {len(at_V)} times, every {period:.3g} steps{known}"
            ),
            evidence={"times": len(at_V), "limit": self.times, "period": period},
            location=rate.location,
        )


def _valleys(share_S: Floats, low: float) -> Ints:
    """Return the places at which a rate is lowest between a gradual fall and an equal climb.

    Args:
        share_S: rates as a share of the largest rate.
        low: the share below which a rate is low.
    """
    places: list[int] = []
    high, first, last = -1, -1, -1
    for place, share in enumerate(share_S.tolist()):
        if share <= low and high >= 0:
            first = place if first < 0 else first
            last = place
        elif share >= HIGH:
            fall, climb = first - high, place - last
            even = first >= 0 and max(fall, climb) <= UNEVEN * min(fall, climb)
            if even and min(fall, climb) >= LEAST_WAY:
                places.append((first + last) // 2)
            high, first, last = place, -1, -1
    return np.array(places, dtype=np.int64)


def _batches(window: Window) -> int:
    """Return the number of batches of the longest pass of a loader; 0 if it is unknown."""
    return max((one.batches or 0 for one in window.seen(LoaderBegan)), default=0)
