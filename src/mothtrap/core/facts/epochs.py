"""Facts about the epochs of a loop that a framework runs."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class EpochMetrics(Fact, frozen=True, kw_only=True, tag=True):
    """Metrics of one epoch that a framework's loop reports; the epoch ended before `step`.

    `fit` is a label of the line that trains; `epoch` counts from 0. By name of the metric, `values`
    contains the means over the epoch on the training data, and `held_out` the values of the
    following validation, if any. `loss` is the metric that is minimized. A metric is in
    `higher_is_better` or `lower_is_better` if the direction is known. `weighted`: `fit` received
    weights of rows or classes. `output_losses`: names of the values that are losses of single
    outputs of the model, before they are weighted and added.
    """

    fit: str
    epoch: int
    loss: str | None = None
    values: dict[str, float] = {}
    held_out: dict[str, float] = {}
    higher_is_better: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    weighted: bool = False
    output_losses: tuple[str, ...] = ()
    location: str | None = None


class WeightsAveraged(Fact, frozen=True, kw_only=True, tag=True):
    """A framework's loop has ended and replaced the weights with moving averages.

    They include the weights of `updates` steps, and keep the share `momentum` of their previous
    value in each. `location` is the line that created the optimizer.
    """

    momentum: float
    updates: int
    location: str | None = None


class MetricWatched(Fact, frozen=True, kw_only=True, tag=True):
    """A callback acts on a metric, in a direction that the script set.

    `callback` is its class, and `monitor` the metric as the script names it. `metric` is the metric
    in `EpochMetrics` of the same `fit`, in `held_out` or in `values`. The callback treats the
    largest (`direction` is `max`) or the smallest value (`min`) as the best. It `stops` the
    training, `restores` the best weights at the end, `lowers_rate`, or `saves` the best weights.
    `location` is the line that created it, or else the line that trains.
    """

    fit: str
    callback: str
    monitor: str
    metric: str
    direction: str
    held_out: bool = False
    stops: bool = False
    restores: bool = False
    lowers_rate: bool = False
    saves: bool = False
    location: str | None = None
