"""Callbacks of `fit` that monitor a metric, and the metrics of each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import keras
import numpy as np

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.fits import Fit
from mothtrap.adapters.keras.layers import LOCATIONS
from mothtrap.core.adapters import Job
from mothtrap.core.facts.epochs import EpochMetrics, MetricWatched
from mothtrap.core.metrics import sense_by_name
from mothtrap.tracing.source import frames

WATCHING: Final = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.ModelCheckpoint,
)
"""Callbacks that act depending on whether a metric improves."""
HELD_OUT: Final = "val_"
"""Prefix of validation metrics in the logs of `fit`."""


def made(callback: Any, *_: object) -> None:
    """Store the line that created a callback."""
    place = frames.location(frames.user_frame(skip_init_of=callback))
    if place is not None and type(callback).__hash__ is not None:
        LOCATIONS[callback] = place


class Monitored:
    """Reports callbacks that monitor a metric, and the metrics of epochs.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._reported: set[tuple[object, ...]] = set()

    def begin(self, callbacks: Iterable[Any], fit: Fit) -> None:
        """Report the callbacks of a `fit` with a configured metric direction.

        Args:
            callbacks: a `CallbackList`.
            fit: fit that begins.
        """
        for callback in callbacks:
            found = self._watched(callback, fit)
            if found is None:
                continue
            key = found.fit, found.callback, found.monitor, found.direction, found.location
            if key not in self._reported:
                self._reported.add(key)
                self._job.fact(found)

    def _watched(self, callback: Any, fit: Fit) -> MetricWatched | None:
        monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        saves = bool(getattr(callback, "save_best_only", False))
        if not isinstance(callback, WATCHING) or mode not in ("min", "max"):
            return None
        if not isinstance(monitor, str) or (isinstance(callback, WATCHING[2]) and not saves):
            return None
        place = LOCATIONS.get(callback) if type(callback).__hash__ is not None else None
        return MetricWatched(
            step=self._job.now.step,
            fit=fit.label,
            callback=type(callback).__name__,
            monitor=monitor,
            metric=monitor.removeprefix(HELD_OUT),
            held_out=monitor.startswith(HELD_OUT),
            direction=mode,
            stops=isinstance(callback, keras.callbacks.EarlyStopping),
            restores=bool(getattr(callback, "restore_best_weights", False)),
            lowers_rate=isinstance(callback, keras.callbacks.ReduceLROnPlateau),
            saves=saves,
            location=place or fit.location,
        )

    def epoch_ended(self, model: Any, epoch: int, logs: Mapping[str, Any], fit: Fit) -> None:
        """Report the metrics of an epoch.

        Args:
            model: model that is trained.
            epoch: its number, from 0.
            logs: values that `fit` passes to callbacks at the end of an epoch.
            fit: fit in progress.
        """
        numbers = _numbers(logs)
        held_out = {
            name.removeprefix(HELD_OUT): value
            for name, value in numbers.items()
            if name.startswith(HELD_OUT)
        }
        values = {name: v for name, v in numbers.items() if not name.startswith(HELD_OUT)}
        known = internals.metric_senses(model)
        rising = {name: known.get(name, sense_by_name(name)) for name in {*values, *held_out}}
        self._job.fact(
            EpochMetrics(
                step=self._job.now.step,
                fit=fit.label,
                epoch=epoch,
                loss="loss" if "loss" in values else None,
                values=values,
                held_out=held_out,
                higher_is_better=tuple(sorted(name for name in rising if rising[name])),
                lower_is_better=tuple(sorted(name for name in rising if rising[name] is False)),
                weighted=fit.weighted,
                output_losses=tuple(sorted(_losses_of_outputs(model) & values.keys())),
                location=fit.location,
            )
        )


def _losses_of_outputs(model: Any) -> set[str]:
    """Return the names under which Keras logs the loss of each of several outputs."""
    outputs = set(getattr(model, "output_names", None) or ())
    for named in (getattr(model, "loss", None), getattr(model, "output", None)):
        outputs |= set(named) if isinstance(named, dict) else set()
    return {f"{output}_loss" for output in outputs}


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in logs, to which callbacks of the script may have added anything."""
    found: dict[str, float] = {}
    for name, value in logs.items():
        if keras.ops.is_tensor(value) or isinstance(value, int | float | np.number | np.ndarray):
            array = keras.ops.convert_to_numpy(value)
            if array.size == 1 and array.dtype.kind in "fiub":
                found[str(name)] = float(array.reshape(()))
    return found
