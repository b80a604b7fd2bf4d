"""OPT613: the averaged weights at the end of `fit` are still mostly initial weights."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics, WeightsAveraged
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class AveragedWeightsLag(Rule):
    """The averaged weights at the end of `fit` are still mostly initial weights.

    What it detects:
        An optimizer that replaces the weights by their moving average when `fit` ends, with a
        momentum so close to 1 that the average is still near the initial weights.

    Why it matters:
        During `fit` the model is evaluated with its current weights, and the metrics look good.
        The saved model has the averaged weights, which have hardly learned anything.

    Fires:
        Warning at the end of `fit` when more than `left` of the average is its initial value.

    Stays quiet:
        For optimizers that replace the weights by the average during training, because
        evaluations then show the problem.

    What to do:
        - Lower the momentum so that it averages over at most a tenth of the steps: 0.99 for
          1,000 steps.
        - Train for longer: an average with a momentum of 0.999 needs about 5,000 steps.

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
        """Check the averaged weights of the latest training run."""
        seen = list(window.seen(WeightsAveraged))
        if not seen:
            if any(window.seen(EpochMetrics)):
                raise NotApplicable("no optimizer averages the weights")
            raise NotEnoughData("no training run has ended")
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
                    f"at the end of `fit`, {left:.0%} of the averaged weights still comes from "
                    f"the initial weights (limit {self.left:.0%}), after {last.updates} updates "
                    f"with a momentum of {last.momentum:g}"
                ),
                evidence={"left": left, "limit": self.left, "momentum": last.momentum},
                location=last.location,
            )
        ]
