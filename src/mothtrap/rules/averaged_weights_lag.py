"""OPT613: the averaged weights that a training leaves are still their first values."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics, WeightsAveraged
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class AveragedWeightsLag(Rule):
    """The averaged weights that a training leaves are still their first values.

    What it detects:
        An optimizer that puts a moving average of the weights in their place when `fit` ends, with
        a momentum so close to 1 that the average has hardly left the initial values.

    Why it matters:
        While it trains, the model is evaluated with the weights themselves, and all looks well.
        What is saved and used afterwards is the average: a model that has hardly begun to learn.

    Fires:
        Warning at the end of a `fit`, when more than `left` of the average is its first value.

    Stays quiet:
        Averages that take the place of the weights every so many steps: then evaluations show it.

    What to do:
        - Lower the momentum: it should average over a tenth of the steps at most, 0.99 for 1,000.
        - Train for longer: an average with a momentum of 0.999 needs some 5,000 steps.

    Example:
        keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.9999)
        keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.99)

    References:
        Polyak, Juditsky 1992, Acceleration of stochastic approximation by averaging,
        https://doi.org/10.1137/0330046
    """

    code = "OPT613"
    title = "averaged weights lag behind"
    needs = (Need(facts=(WeightsAveraged,)), Need(facts=(EpochMetrics,), optional=True))

    left: float = threshold(0.1, unit="of the average", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge what the latest training left."""
        seen = list(window.seen(WeightsAveraged))
        if not seen:
            if any(window.seen(EpochMetrics)):
                raise NotApplicable("no optimizer leaves an average of the weights")
            raise NotEnoughData("no training has ended")
        last = seen[-1]
        left = last.momentum**last.updates
        if left <= self.left:
            return []
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=last.step,
                message=(
                    f"`fit` leaves averages of the weights, and {left:.0%} of them is still the "
                    f"first value after {last.updates} steps, with a momentum of {last.momentum:g}"
                ),
                evidence={"left": left, "limit": self.left, "momentum": last.momentum},
                location=last.location,
            )
        ]
