"""Replaced functions of LightGBM, and the handle that restores them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import lightgbm
from lightgbm.callback import EarlyStopException

from mothtrap.adapters.lightgbm.model import BoosterModel
from mothtrap.core.adapters import Job
from mothtrap.tracing.boosting.handle import (
    BoostingHandle,
    Function,
    OwnLoop,
    latest_of,
)
from mothtrap.tracing.boosting.samples import Samples
from mothtrap.tracing.replacements import Replacements, drop_own_frame

CALLBACK_ORDER = 25
"""Position after the library's logging (10, 20), and before its early stopping (30), which raises
an exception.
"""


class AfterRound:
    """Callback added to a training run together with the user's callbacks.

    Args:
        handle: receives the rounds.
        call: the function that trains.
        arguments: arguments of the training call.
    """

    before_iteration = False
    order = CALLBACK_ORDER

    def __init__(self, handle: LightGBMHandle, call: str, arguments: Mapping[str, Any]) -> None:
        self._handle, self.call = handle, call
        self.train_set = arguments.get("train_set")
        given = arguments.get("callbacks") or ()
        self.stopping = next((one for one in given if hasattr(one, "stopping_rounds")), None)
        self.latest: BoosterModel | None = None
        self.owner: object = None

    def __call__(self, env: Any) -> None:
        """Process a complete round."""
        self._handle.job.contain(self._closed, env)
        if self._handle.stops_now():
            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    def _closed(self, env: Any) -> None:
        rows = [tuple(row) for row in env.evaluation_result_list or ()]
        is_cv = not isinstance(env.model, lightgbm.Booster)
        booster = env.model.boosters[0] if is_cv else env.model
        if not self._handle.is_watched(booster, self.train_set):
            return
        self.owner, self.latest = (
            env.model,
            BoosterModel(
                booster,
                rows,
                stopping=self.stopping,
                rounds_asked=env.end_iteration - env.begin_iteration,
                is_cv=is_cv,
                custom=_is_custom(env.params.get("objective")),
            ),
        )
        latest = latest_of([(row[0], row[1], row[2]) for row in rows])
        self._handle.rounds.closed(self.owner, self.latest, env.iteration, latest, self.call)

    def ended(self) -> None:
        """Process the end of training, once."""
        if self.owner is not None:
            self._handle.rounds.ended(self.owner, self.latest)
            self.owner = self.latest = None


class LightGBMHandle(BoostingHandle):
    """Handle for LightGBM."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._rounds_of: list[AfterRound] = []
        super().__init__(job, targets, Samples())

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that create tables, rounds and evaluations."""
        self.watch_predictions(lightgbm.LGBMModel, lightgbm.LGBMClassifier)
        self.after(lightgbm.Dataset, "__init__", self._made_table)
        for module in (lightgbm, lightgbm.engine, lightgbm.sklearn):
            for name in ("train", "cv"):
                if name in vars(module):
                    replacements.replace(module, name, self._around_training)
        replacements.replace(lightgbm.Booster, "update", self._around_update)
        replacements.replace(lightgbm.Booster, "model_from_string", self._before_booster_is_copied)
        if "_Booster__boost" in vars(lightgbm.Booster):
            replacements.replace(lightgbm.Booster, "_Booster__boost", self._around_boost)
        for name in ("eval_train", "eval_valid", "eval"):
            self.after(lightgbm.Booster, name, self._evaluated)

    def _around_training(self, original: Function) -> Function:
        def train(*args: Any, **kwargs: Any) -> Any:
            prepared = self.job.contain(self._prepared, original, args, kwargs)
            if prepared is None:
                return original(*args, **kwargs)
            callback, arguments = prepared
            here, before = self.here, self.here.in_library
            here.in_library = True
            self._rounds_of.append(callback)
            try:
                return original(*arguments.args, **arguments.kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                here.in_library = before
                self._rounds_of.remove(callback)
                self.job.contain(callback.ended)

        return train

    def _prepared(
        self, original: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[AfterRound, inspect.BoundArguments] | None:
        """Add the callback to the arguments of a training call; None if they are invalid."""
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
        except TypeError:  # the library itself reports it
            return None
        call = "fit" if _is_estimator() else original.__name__
        callback = AfterRound(self, call, bound.arguments)
        bound.arguments["callbacks"] = [*(bound.arguments.get("callbacks") or ()), callback]
        return callback, bound

    def _before_booster_is_copied(self, original: Function) -> Function:
        """Record the training data before LightGBM releases it."""

        def model_from_string(booster: lightgbm.Booster, *args: Any, **kwargs: Any) -> Any:
            for callback in self._rounds_of:
                if callback.owner is booster:
                    self.job.contain(callback.ended)
            return original(booster, *args, **kwargs)

        return model_from_string

    def _around_update(self, original: Function) -> Function:
        def update(booster: lightgbm.Booster, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(booster, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            if not self.here.in_library:
                self.job.contain(self._updated, booster)
            return result

        return update

    def _around_boost(self, original: Function) -> Function:
        def boost(booster: lightgbm.Booster, *args: Any, **kwargs: Any) -> Any:
            given = dict(zip(("grad", "hess"), args, strict=False), **kwargs)
            self.job.contain(self._boosting, booster, given.get("grad"), given.get("hess"))
            return original(booster, *args, **kwargs)

        return boost

    def _boosting(self, booster: lightgbm.Booster, grad: Any, hess: Any) -> None:
        """Inspect the gradients of the first round."""
        train = booster.train_set
        if train is not None and grad is not None and booster.current_iteration() == 0:
            self.look_at_gradients(booster, grad, hess, train.get_label())

    def _made_table(
        self, table: Any, _: None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        data = args[0] if args else kwargs.get("data")
        self.job.contain_part("tables", self.samples.made, table, data)
        self.job.contain_part("order", self.look_at_order, data, args, kwargs)

    def _updated(self, booster: lightgbm.Booster) -> None:
        """Process a round of a custom loop, whose metrics become known in the next round."""
        if not self.is_watched(booster, booster.train_set):
            return
        self.end_loop()
        self._rows: list[Any] = []
        seen = BoosterModel(booster, self._rows)
        self.here.loop = OwnLoop(booster, seen, booster.current_iteration() - 1)

    def _evaluated(
        self, booster: lightgbm.Booster, rows: Any, _: Sequence[Any], __: Mapping[str, Any]
    ) -> None:
        loop = self.here.loop
        if not self.here.in_library and loop is not None and loop.owner is booster:
            for row in rows:
                self._rows.append(tuple(row))
                loop.evaluated(row[0], row[1], float(row[2]))

    def is_watched(self, booster: lightgbm.Booster, table: Any) -> bool:
        """Return whether a training run is observed."""
        targets = self.targets
        return not targets or any(
            target is booster or target is table or _is_estimator(target) for target in targets
        )


def _is_custom(objective: Any) -> bool:
    """Return whether an objective is a user's function; None is the default of the library."""
    return callable(objective) or objective in ("", "none", "custom")


def _is_estimator(target: object = None) -> bool:
    """Return whether an estimator's `fit` is running; with `target`, only its `fit` counts."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "fit":
            fitting = frame.f_locals.get("self")
            if fitting is target or (target is None and isinstance(fitting, lightgbm.LGBMModel)):
                return fitting is not None
        frame = frame.f_back
    return False
