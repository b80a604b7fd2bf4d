"""Facts about the epochs of a loop that a framework runs."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class EpochMetrics(Fact, frozen=True, kw_only=True, tag=True):
    """The metrics that the loop of a framework tells of one epoch, which ended before `step`.

    `fit` is a label of the line that trains, `epoch` counts from 0. `values` are of the data
    trained on, means over the epoch, `held_out` of the validation after it, if there was one, both
    by the metric's name. `loss` is the one that is trained. A metric is in one of
    `higher_is_better` and `lower_is_better` where it is known which way it is better.
    `weighted`: `fit` was given weights of rows or classes. `output_losses`: names of those values
    that are the losses of single outputs of the model, before they are weighed and added.
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
    """A loop that a framework runs has ended, and has put moving averages in the weights' place.

    They have taken the weights of `updates` steps, and keep the share `momentum` of what they
    were in each. `location` is the line that made the optimizer.
    """

    momentum: float
    updates: int
    location: str | None = None


class MetricWatched(Fact, frozen=True, kw_only=True, tag=True):
    """A part of a training acts by a metric, and was told by the script which way it is better.

    `callback` is its class, `monitor` the metric as the script names it: `metric` of
    `EpochMetrics` of the same `fit`, and there of `held_out` or of `values`. It takes the greatest
    for the best (`direction` is `max`) or the smallest (`min`). It `stops` the training,
    `restores` the best weights at its end, `lowers_rate`, or `saves` the best weights. `location`
    is the line that made it, else the one that trains.
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
