"""The call to `fit` in progress, on any backend, and the metrics of its epochs."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from mothtrap.adapters.keras import internals, monitored
from mothtrap.adapters.keras.fits import Fit, began
from mothtrap.core.adapters import Job
from mothtrap.tracing.handle import BaseHandle
from mothtrap.tracing.replacements import Replacements, drop_own_frame
from mothtrap.tracing.source import frames

Function = Callable[..., Any]


class Fitting(BaseHandle):
    """Base class of handles that track the current `fit`.

    Args:
        job: receives the observations.
        targets: watched models and their optimizers; empty = the whole process.
    """

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._running = _Running()
        self._fits: weakref.WeakKeyDictionary[Any, Fit] = weakref.WeakKeyDictionary()
        self._monitored = monitored.Monitored(job)
        super().__init__(job, targets)

    def stop(self, _: str) -> bool:
        """End `fit` after the step in progress."""
        running = self._running.fit
        if running is None:
            return False
        running.model.stop_training = True
        return True

    def install(self, replacements: Replacements) -> None:
        """Replace `fit`, and the functions that begin and end its callbacks."""
        replacements.replace(internals.trainer_type(), "fit", self._around_fit)
        for kind in monitored.WATCHING:
            replacements.around(kind, "__init__", None, monitored.made)
        every = keras.callbacks.CallbackList
        replacements.around(every, "on_train_begin", self._callbacks_begin, None)
        replacements.around(every, "on_epoch_end", None, self._epoch_ended)

    def _around_fit(self, original: Function) -> Function:
        handle, running, signature = self, self._running, inspect.signature(original)

        def fit(model: Any, /, *args: Any, **kwargs: Any) -> Any:
            before = running.fit
            running.fit = handle.job.contain(handle._fit_began, model, signature, args, kwargs)
            try:
                return original(model, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                handle.job.contain(handle._fit_failed, err, model, args, kwargs)
                raise
            finally:
                handle.job.contain_part("data", handle._fit_ended, running.fit, before)
                running.fit = before

        return fit

    def _fit_began(
        self, model: Any, signature: inspect.Signature, args: Any, kwargs: Any
    ) -> Fit | None:
        if not self.watches(model):
            return None
        given = _bound(signature, model, args, kwargs)
        location = frames.user_location()
        fit = self._fits[model] = began(model, location)
        fit.weighted = any(
            given.get(name) is not None for name in ("class_weight", "sample_weight")
        )
        if given and given.get("x") is None:
            self.job.never_stepped(f"`fit` was called without data ({location})")
        self._fit_given(fit, given)
        return fit

    def _fit_given(self, fit: Fit, given: Mapping[str, Any]) -> None:
        """Inspect the arguments of a `fit` that begins."""

    def _fit_failed(self, err: BaseException, model: Any, args: Any, kwargs: Any) -> None:
        """Inspect the arguments of a `fit` that raised an exception."""

    def _fit_ended(self, fit: Fit | None, before: Fit | None) -> None:
        """Handle the end of a `fit`; `before` is the `fit` in which it was called."""

    def _callbacks_begin(self, callbacks: Any, *_: object) -> None:
        fit = self._running.fit
        if fit is not None and callbacks.model is fit.model:
            self.job.contain_part("callbacks", self._monitored.begin, callbacks.callbacks, fit)

    def _epoch_ended(self, callbacks: Any, _: Any, args: Any, kwargs: Any, __: object) -> None:
        fit, given = self._running.fit, dict(zip(("epoch", "logs"), args, strict=False)) | kwargs
        if fit is None or callbacks.model is not fit.model:
            return
        self._pass_ended()
        if given.get("logs"):
            told = fit.model, int(given["epoch"]), given["logs"], fit
            self.job.contain_part("metrics of epochs", self._monitored.epoch_ended, *told)

    def _pass_ended(self) -> None:
        """Handle the end of a pass of `fit` over its data."""


class _Running(threading.local):
    """The `fit` in progress on a thread."""

    fit: Fit | None = None


def _bound(signature: inspect.Signature, model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        found = signature.bind(model, *args, **kwargs)
    except TypeError:
        return {}  # Keras itself will report it
    found.apply_defaults()
    return dict(found.arguments)
