"""OPT611: a callback watches a metric in the wrong direction."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.metrics import sense_by_name
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._epochs import UNSURE, Epochs, of_fit, trainings


@frozen
class MetricWatchedBackwards(Rule):
    """A callback watches a metric in the wrong direction.

    What it detects:
        Early stopping, learning rate reduction on a plateau, and checkpoints of the best epoch that
        treat the greatest loss, or the smallest accuracy, as the best. PyTorch: the schedule
        `ReduceLROnPlateau`, if the script passes it a variable that is named after a metric.

    Why it matters:
        Each improvement counts as getting worse: training stops right away, the learning rate
        falls to 0, or the worst weights are kept as the best.

    Fires:
        Warning at the start of training when the metric's name, or the framework, says that the
        other direction is better. Error when the metric did improve and one of the first `epochs`
        epochs counts as the best.

    Stays quiet:
        When no direction is given and the framework looks it up (`mode="auto"`). Metrics whose
        direction is not known, and metrics that the script negates. Checkpoints of every epoch.

    What to do:
        - Pass `mode="min"` for a loss or an error (`greater_is_better=False` in Hugging Face's
          Trainer); in Keras, `mode="auto"` picks the direction.
        - Pass `mode="max"` for an accuracy or a score (`greater_is_better=True` in Hugging Face's
          Trainer); in Keras, `mode="auto"` picks the direction.

    Example:
        EarlyStopping(monitor="val_loss", mode="max", patience=4)
        EarlyStopping(monitor="val_loss", mode="min", patience=4)

    References:
        https://keras.io/api/callbacks/early_stopping/
    """

    code = "OPT611"
    title = "metric watched in the wrong direction"
    needs = (Need(facts=(MetricWatched,)), Need(facts=(EpochMetrics,), optional=True))
    explains = (
        *UNLEARNED,
        "learning_rate_too_low",
        "learning_rate_zero",
        "overtraining",
        "unchanged_tensor",
        "update_ratio",
    )

    epochs: int = threshold(2, unit="epochs", source="chosen by hand, as in TRE908")

    def check(self, window: Window) -> list[Finding]:
        """Check every callback that acts on a metric."""
        seen = list(window.seen(MetricWatched))
        if not seen:
            raise NotApplicable("no callback that acts on a metric has a direction set")
        every = trainings(window)
        found = [finding for one in seen if (finding := self._judge(window, one, every))]
        return sorted(found, key=lambda finding: (finding.severity.rank, finding.step))[:1]

    def _judge(self, window: Window, one: MetricWatched, every: list[Epochs]) -> Finding | None:
        mine = of_fit(every, one.fit)
        rising = mine[-1].is_rising(one.metric) if mine else sense_by_name(one.metric)
        if rising is None or rising == (one.direction == "max") or UNSURE.search(one.metric):
            return None
        looked, right, fix = (
            ("smallest", "greater", "max") if rising else ("greatest", "smaller", "min")
        )
        message = (
            f"{one.callback} treats the {looked} {one.monitor} as the best "
            f'(`mode="{one.direction}"`), but a {right} one is better'
        )
        best = next((best for own in mine if (best := self._misled(one, own, rising))), None)
        if best is not None:
            message += f": {_outcome(one, *best)}"
        return self.finding(
            window,
            severity=Severity.WARNING if best is None else Severity.ERROR,
            step=one.step,
            message=message,
            fixes=tuple(text for text in self.fixes(window) if f'mode="{fix}"' in text),
            evidence={
                "callback": one.callback,
                "monitor": one.monitor,
                "mode": one.direction,
                "epoch": best[0] if best else None,
                "epochs": best[1] if best else None,
            },
            location=one.location,
        )

    def _misled(self, one: MetricWatched, own: Epochs, rising: bool) -> tuple[int, int] | None:
        """Return the epoch that counts as the best and the number of epochs, if known."""
        value_E = own.values(one.metric, held_out=one.held_out)
        known = np.flatnonzero(np.isfinite(value_E))
        if len(known) < 2:
            return None
        better_E = value_E[known] if rising else -value_E[known]
        taken = int(np.argmin(better_E))
        if taken >= self.epochs or better_E[-1] <= better_E[taken]:
            return None
        return own.seen[int(known[taken])].epoch + 1, own.seen[-1].epoch + 1


def _outcome(one: MetricWatched, epoch: int, epochs: int) -> str:
    if one.lowers_rate:
        return f"after epoch {epoch} of {epochs}, every improvement lowers the learning rate"
    what = f"epoch {epoch} of {epochs} counts as the best"
    if one.saves:
        return f"{what}, and its weights are kept"
    return f"{what}, and its weights are restored" if one.restores else what
