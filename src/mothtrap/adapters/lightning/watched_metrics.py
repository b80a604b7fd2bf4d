"""Metrics that callbacks and schedulers of Lightning act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.metrics import sense_by_name

EVERY_EPOCH = -1
"""`save_top_k` of a checkpoint that keeps the weights of every epoch."""


def watched(trainer: Any, *, step: int, fit: str, place: str | None) -> Iterator[MetricWatched]:
    """Yield the metrics that the callbacks and schedulers of a trainer act on.

    Args:
        trainer: trainer that begins to train.
        step: step in progress.
        fit: label of the line that trains.
        place: this line.
    """
    about: dict[str, Any] = {"step": step, "fit": fit, "held_out": True, "location": place}
    for one in trainer.callbacks:
        monitor, mode = getattr(one, "monitor", None), getattr(one, "mode", None)
        if not isinstance(monitor, str) or mode not in ("min", "max"):
            continue
        saves = hasattr(one, "best_model_path")
        if saves and getattr(one, "save_top_k", 1) in (0, EVERY_EPOCH):
            continue
        names: dict[str, Any] = {
            "callback": type(one).__name__,
            "monitor": monitor,
            "metric": monitor,
        }
        yield MetricWatched(direction=mode, saves=saves, stops=not saves, **names, **about)
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and isinstance(config.monitor, str):
            names = {"callback": type(config.scheduler).__name__, "monitor": config.monitor}
            direction = config.scheduler.mode
            yield MetricWatched(
                direction=direction, metric=config.monitor, lowers_rate=True, **names, **about
            )


def epoch(
    held_out: Mapping[str, Any], *, step: int, fit: str, number: int, place: str | None
) -> EpochMetrics:
    """Return the metrics of an evaluation during training.

    Args:
        held_out: values that the trainer has reduced, by name.
        step: step in progress.
        fit: label of the line that trains.
        number: number of the epoch, from 0.
        place: the line that trains.
    """
    values = {name: float(value) for name, value in held_out.items()}
    sense = {name: sense_by_name(name) for name in values}
    return EpochMetrics(
        step=step,
        fit=fit,
        epoch=number,
        held_out=values,
        higher_is_better=tuple(sorted(name for name in sense if sense[name])),
        lower_is_better=tuple(sorted(name for name in sense if sense[name] is False)),
        location=place,
    )
