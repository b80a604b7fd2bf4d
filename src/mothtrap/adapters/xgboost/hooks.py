"""Replaced functions of XGBoost, and the handle that restores them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import xgboost
from xgboost.callback import CallbackContainer

from mothtrap.adapters.xgboost.model import BoosterModel, stored_values
from mothtrap.adapters.xgboost.values import Values
from mothtrap.core.adapters import Job
from mothtrap.tracing.boosting.handle import BoostingHandle, Function, OwnLoop
from mothtrap.tracing.boosting.models import Latest
from mothtrap.tracing.boosting.samples import Samples
from mothtrap.tracing.replacements import Replacements, drop_own_frame

TABLES = (xgboost.DMatrix, xgboost.QuantileDMatrix)
CALLS = ("fit", "cv", "train")
"""Library functions that train a whole model; the outermost function is last on the stack."""


class XGBoostHandle(BoostingHandle):
    """Handle for XGBoost; `rounds_of` has the requested rounds of each training run."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._values = Values(job)
        super().__init__(job, targets, Samples(stored_values))

    def install(self, replacements: Replacements) -> None:
        """Replace the functions that create tables, rounds and evaluations."""
        self.watch_predictions(xgboost.XGBModel, xgboost.XGBClassifier)
        for kind in TABLES:
            self.after(kind, "__init__", self._made_table)
        self.after(CallbackContainer, "after_training", self._after_training)
        replacements.replace(CallbackContainer, "before_iteration", self._around_round_begin)
        replacements.replace(CallbackContainer, "after_iteration", self._around_round_end)
        replacements.replace(xgboost.Booster, "update", self._around_update)
        replacements.replace(xgboost.Booster, "boost", self._around_boost)
        self.after(xgboost.Booster, "eval_set", self._evaluated)
        self.after(xgboost.training._PackedBooster, "eval", self._evaluated_folds)

    def _around_round_begin(self, original: Function) -> Function:
        here = self.here

        def before_iteration(container: CallbackContainer, *args: Any, **kwargs: Any) -> Any:
            try:
                stops = original(container, *args, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            here.in_library = not stops
            return stops

        return before_iteration

    def _around_round_end(self, original: Function) -> Function:
        def after_iteration(
            container: CallbackContainer, model: Any, epoch: int, dtrain: Any, evals: Any = None
        ) -> Any:
            try:
                stops = original(container, model, epoch, dtrain, evals)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                self.here.in_library = False
            self.job.contain(self._round_closed, container, model, epoch, dtrain, evals)
            return True if self.stops_now() else stops

        return after_iteration

    def _around_update(self, original: Function) -> Function:
        here = self.here

        def update(booster: xgboost.Booster, *args: Any, **kwargs: Any) -> Any:
            here.depth += 1  # `update` calls `boost` for a user-defined objective
            try:
                result = original(booster, *args, **kwargs)
            except BaseException as err:
                here.in_library = False
                drop_own_frame(err)
                raise
            finally:
                here.depth -= 1
            if not here.in_library and not here.depth:
                table = args[0] if args else kwargs.get("dtrain")
                self.job.contain(self._updated, booster, table)
            return result

        return update

    def _around_boost(self, original: Function) -> Function:
        around = self._around_update(original)

        def boost(
            booster: xgboost.Booster, dtrain: xgboost.DMatrix, *args: Any, **kwargs: Any
        ) -> Any:
            if booster.num_boosted_rounds() == 0:
                gradient, hessian = (*args[1:3], kwargs.get("grad"), kwargs.get("hess"))[:2]
                self.job.contain(self._boosting, booster, dtrain, gradient, hessian)
                if type(kwargs.get("fobj")) is FunctionType:
                    kwargs = {**kwargs, "fobj": self._seen(kwargs["fobj"], booster, dtrain)}
            return around(booster, dtrain, *args, **kwargs)

        return boost

    def _seen(
        self, objective: Function, booster: xgboost.Booster, table: xgboost.DMatrix
    ) -> Function:
        """Return the user's objective, wrapped to record its results."""

        def seen(*args: Any, **kwargs: Any) -> Any:
            result = objective(*args, **kwargs)
            if isinstance(result, tuple) and len(result) == 2:
                self.job.contain(self._boosting, booster, table, *result)
            return result

        return functools.wraps(objective)(seen)

    def _boosting(
        self, booster: xgboost.Booster, table: xgboost.DMatrix, gradient: Any, hessian: Any
    ) -> None:
        """Inspect the gradients of the first round."""
        if isinstance(gradient, np.ndarray):
            self.look_at_gradients(booster, gradient, hessian, table.get_label())

    def _made_table(
        self, table: Any, _: None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        data = args[0] if args else kwargs.get("data")
        missing = kwargs.get("missing")
        missing = float(missing) if isinstance(missing, int | float) else float("nan")
        self.job.contain_part("tables", lambda: self.samples.made(table, data, missing=missing))
        self.job.contain_part("order", self.look_at_order, data, args, kwargs)

    def _round_closed(
        self, container: CallbackContainer, model: Any, epoch: int, dtrain: Any, evals: Any
    ) -> None:
        if self._is_watched(model, dtrain) and self.rounds.is_ours():
            seen = self._model(container, model, dtrain, evals or ())
            if container.is_cv:
                self._report_folds(container)
            else:
                self.job.contain_part(
                    "values", self._values.take, container, model, dtrain, evals or ()
                )
            self.rounds.closed(container, seen, epoch, _latest(container.history), _call())

    def _evaluated_folds(self, _: Any, texts: Sequence[str], *__: object) -> None:
        """Store the metrics of each fold, because the library keeps only means."""
        self.here.folds = [_metrics(text) for text in texts]

    def _report_folds(self, container: CallbackContainer) -> None:
        label = self.rounds.label_of(container, "cv")
        for fold, found in enumerate(self.here.folds):
            for site, metric, value in found:
                self.job.scalar(f"{site}.{metric}", f"{label} fold {fold}", value)
        self.here.folds = []

    def _model(
        self, container: CallbackContainer, model: Any, dtrain: Any = None, evals: Any = ()
    ) -> BoosterModel:
        booster = model.cvfolds[0].bst if container.is_cv else model
        asked = _local("num_boost_round")
        return BoosterModel(booster, dtrain, evals, container, asked, _params())

    def _after_training(self, container: CallbackContainer, model: Any, *_: object) -> None:
        evals = _local_evals() if not container.is_cv else ()
        self.rounds.ended(container, self._model(container, model, None, evals))

    def _updated(self, booster: xgboost.Booster, table: xgboost.DMatrix | None) -> None:
        """Process a round of a custom loop, whose metrics become known in the next round."""
        if not self._is_watched(booster, table):
            return
        self.end_loop()
        self._evals: list[Any] = []
        seen = BoosterModel(booster, table, self._evals)
        self.here.loop = OwnLoop(booster, seen, booster.num_boosted_rounds() - 1)

    def _evaluated(
        self, booster: xgboost.Booster, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Record the booster's line of metrics: `[3]<tab>train-rmse:0.2`."""
        loop = self.here.loop
        if self.here.in_library or loop is None or loop.owner is not booster:
            return
        self._evals += args[0] if args else kwargs.get("evals", ())
        for site, metric, value in _metrics(text):
            loop.evaluated(site, metric, value)

    def _is_watched(self, model: Any, table: Any) -> bool:
        targets = self.targets
        return not targets or any(
            target is model or target is table or _is_fitting(target) for target in targets
        )


def _metrics(text: str) -> list[tuple[str, str, float]]:
    """Return data, metric and value in a line of the library: `[3]<tab>train-rmse:0.2`."""
    found = []
    for entry in text.split("\t")[1:]:
        name, _, value = entry.rpartition(":")
        site, _, metric = name.partition("-")
        found.append((site, metric, float(value)))
    return found


def _latest(history: Mapping[str, Mapping[str, Sequence[Any]]]) -> Latest:
    """Return the latest value of each metric; in cross-validation, the mean over the folds."""
    return {
        site: {name: _last(values) for name, values in metrics.items()}
        for site, metrics in history.items()
    }


def _last(values: Sequence[Any]) -> float:
    latest = values[-1] if values else float("nan")
    return float(latest[0] if isinstance(latest, tuple) else latest)


def _library_frames() -> list[FrameType]:
    """Yield the running frames of the library, innermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == xgboost.__name__:
            found.append(frame)
        frame = frame.f_back
    return found


def _call() -> str:
    """Return the library function that trains."""
    names = [frame.f_code.co_name for frame in _library_frames()]
    return next((name for name in reversed(names) if name in CALLS), "train")


def _local(name: str) -> int:
    """Return an integer argument of the training function; 0 if it has none."""
    for frame in _library_frames():
        if frame.f_code.co_name in CALLS and name in frame.f_locals:
            value = frame.f_locals[name]
            return int(value) if isinstance(value, int) else 0
    return 0


def _params() -> Any:
    """Return the parameters of the training function in progress; None if unknown."""
    for frame in _library_frames():
        if frame.f_code.co_name in ("train", "cv") and "params" in frame.f_locals:
            return frame.f_locals["params"]
    return None


def _local_evals() -> Any:
    for frame in _library_frames():
        if frame.f_code.co_name == "train" and "evals" in frame.f_locals:
            return frame.f_locals["evals"] or ()
    return ()


def _is_fitting(target: object) -> bool:
    """Return whether an estimator's `fit` is running."""
    return isinstance(target, xgboost.XGBModel) and any(
        frame.f_code.co_name == "fit" and frame.f_locals.get("self") is target
        for frame in _library_frames()
    )
