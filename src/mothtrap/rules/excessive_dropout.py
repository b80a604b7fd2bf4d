"""STR717: a dropout drops nearly everything."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@dataclass(frozen=True)
class ExcessiveDropout(Rule):
    """A dropout drops nearly everything.

    What it detects:
        Dropouts of a model in training whose rate is so high that hardly a value gets through.

    Why it matters:
        What is left is scaled up by 1 / (1 - rate), so the layers behind it see a few large
        values, others in each step: the gradient is mostly noise, and the model learns
        slowly or not at all. Where a rate above 0.8 is meant to be the share that is kept, as in
        early TensorFlow and in papers, it does the opposite of what was meant.

    Fires:
        Warning when a dropout of a model in training mode has a rate of at least `rate`.

    Stays quiet:
        Dropouts in evaluation mode, those that a script calls as a function, and noise.

    What to do:
        - Give the share to drop, not the share to keep: 1 - 0.9 = 0.1.
        - Use 0.1 to 0.5; where the model overfits even so, get more data or make it smaller.

    Example:
        nn.Dropout(0.95)      # meant: keep 95 %
        nn.Dropout(0.05)

    References:
        Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from
        overfitting, JMLR 15, figure 9, https://jmlr.org/papers/v15/srivastava14a.html
    """

    code = "STR717"
    title = "excessive dropout"
    needs = (Need(facts=(TrainingMode,)),)
    explains = (
        *UNLEARNED,
        "dead_units",
        "gradient_spike",
        "learning_rate_too_low",
        "loss_oscillating",
        "loss_spike",
        "vanishing_gradient",
    )

    rate: float = threshold(
        0.85,
        unit="of the values",
        source="Srivastava et al. 2014: test error rises where more than 0.8 are dropped",
    )

    def check(self, window: Window) -> list[Finding]:
        """Judge the dropouts of every model that is trained, as they are now."""
        latest = {mode.module: mode for mode in window.seen(TrainingMode)}
        if not latest:
            raise NotEnoughData("no module was seen in a training step")
        if not any(mode.rates for mode in latest.values()):
            raise NotApplicable("no model that is trained has a dropout")
        judged = (self._judge(window, mode) for mode in latest.values())
        return [finding for finding in judged if finding is not None][:1]

    def _judge(self, window: Window, mode: TrainingMode) -> Finding | None:
        awake = [one for one in mode.rates if one.name not in mode.sleeping]
        high = sorted(
            (one for one in awake if one.rate >= self.rate), key=lambda one: one.rate, reverse=True
        )
        if not high or not mode.trains:
            return None
        others = f", and {len(high) - 1} more" if len(high) > 1 else ""
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=mode.step,
            last_step=max(mode.step, window.last_step),
            layers=tuple(one.name for one in high),
            message=f"{high[0].name} drops {100 * high[0].rate:.3g} % of its values{others}",
            evidence={
                "value": high[0].rate,
                "limit": self.rate,
                "dropouts": [one.name for one in high],
            },
            location=high[0].location or mode.location,
        )
