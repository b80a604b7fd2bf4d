"""Replacements in the classes of XGBoost, and the handle that takes them out again.

A replaced method calls the original outside of every `try` of ours, passes on what it returns
and raises, and takes its own frame out of the traceback.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

import xgboost
from xgboost.callback import CallbackContainer

from mothtrap.adapters.xgboost.rounds import Rounds
from mothtrap.adapters.xgboost.tables import Tables
from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings

Function = Callable[..., Any]
After = Callable[..., None]
TABLES = (xgboost.DMatrix, xgboost.QuantileDMatrix)


class XGBoostHandle:
    """XGBoost at work.

    Args:
        job: takes what is seen.
        targets: whose trainings are watched; none = all of the process.

    Attributes:
        snapshots: None; a round leaves none.
    """

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._job, self._targets = job, tuple(targets)
        self._tables = Tables()
        self._rounds = Rounds(job, self._tables)
        self._here = _Thread()
        self._stops = False
        self._undo = ExitStack()
        try:
            self._install()
        except BaseException:
            self._undo.close()  # all or nothing
            raise

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """What takes snapshots: nothing."""
        return None

    def step(self, given: Given) -> None:
        """Attach numbers of the user's to the round in progress; never raises."""
        for name, value in given.numbers.items():
            self._job.number(name, value)
        if given.loss is not None:
            self._job.number("loss", given.loss)

    def surroundings(self) -> Surroundings | None:
        """Return None: numbers depend on the parameters, which are facts of the run."""
        return None

    def stop(self, _: str) -> bool:
        """End the library's loop after the round in progress."""
        self._stops = True
        return True

    def detach(self) -> None:
        """Close the last round, restore everything that was replaced."""
        if self._here.loop is not None:
            self._job.contain(self._here.loop.close, self._rounds)
            self._here.loop = None
        self._job.contain(self._rounds.finish)
        self._undo.close()

    def abandon(self) -> None:
        """See nothing from here on: the job is not live in a forked child."""
        self._undo.close()

    def _install(self) -> None:
        for kind in TABLES:
            self._after(kind, "__init__", self._made_table)
        self._after(CallbackContainer, "after_training", self._after_training)
        self._replace(CallbackContainer, "before_iteration", self._around_round_begin)
        self._replace(CallbackContainer, "after_iteration", self._around_round_end)
        self._replace(xgboost.Booster, "update", self._around_update)
        self._replace(xgboost.Booster, "boost", self._around_update)
        self._after(xgboost.Booster, "eval_set", self._evaluated)

    def _replace(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        original = owner.__dict__[name]
        setattr(owner, name, functools.wraps(original)(make(original)))
        self._undo.callback(setattr, owner, name, original)

    def _after(self, owner: Any, name: str, act: After) -> None:
        contain = self._job.contain

        def make(original: Function) -> Function:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                try:
                    result = original(self, *args, **kwargs)
                except BaseException as err:
                    _drop_own_frame(err)
                    raise
                contain(act, self, result, args, kwargs)
                return result

            return call

        self._replace(owner, name, make)

    def _around_round_begin(self, original: Function) -> Function:
        here = self._here

        def before_iteration(self: CallbackContainer, *args: Any, **kwargs: Any) -> Any:
            try:
                stops = original(self, *args, **kwargs)
            except BaseException as err:
                _drop_own_frame(err)
                raise
            here.in_library = not stops
            return stops

        return before_iteration

    def _around_round_end(self, original: Function) -> Function:
        handle, here = self, self._here

        def after_iteration(
            self: CallbackContainer, model: Any, epoch: int, dtrain: Any, evals: Any = None
        ) -> Any:
            try:
                stops = original(self, model, epoch, dtrain, evals)
            except BaseException as err:
                _drop_own_frame(err)
                raise
            finally:
                here.in_library = False
            handle._job.contain(handle._round_closed, self, model, epoch, dtrain, evals)
            asked, handle._stops = handle._stops, False
            return True if asked else stops

        return after_iteration

    def _around_update(self, original: Function) -> Function:
        handle, here = self, self._here

        def update(self: xgboost.Booster, *args: Any, **kwargs: Any) -> Any:
            here.depth += 1  # `update` calls `boost` for an objective of the user's
            try:
                result = original(self, *args, **kwargs)
            except BaseException as err:
                here.in_library = False
                _drop_own_frame(err)
                raise
            finally:
                here.depth -= 1
            if not here.in_library and not here.depth:
                table = args[0] if args else kwargs.get("dtrain")
                handle._job.contain(handle._updated, self, table)
            return result

        return update

    def _made_table(self, table: Any, _: None, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        data = args[0] if args else kwargs.get("data")
        self._job.contain_part("tables", self._tables.made, table, data)

    def _round_closed(
        self, container: CallbackContainer, model: Any, epoch: int, dtrain: Any, evals: Any
    ) -> None:
        if not self._is_watched(model, dtrain):
            return
        booster = model.cvfolds[0].bst if container.is_cv else model
        history: Any = container.history
        self._rounds.closed(container, booster, epoch, dtrain, evals or (), history, container)

    def _after_training(self, container: CallbackContainer, model: Any, *_: object) -> None:
        self._rounds.ended(container, model.cvfolds[0].bst if container.is_cv else model)

    def _updated(self, booster: xgboost.Booster, table: xgboost.DMatrix | None) -> None:
        """Take a round of a loop of the script's own: its metrics are known at the next one."""
        if not self._is_watched(booster, table):
            return
        if self._here.loop is not None:
            self._here.loop.close(self._rounds)
        self._here.loop = _OwnLoop(booster, table)

    def _evaluated(
        self, booster: xgboost.Booster, text: str, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        loop = self._here.loop
        if not self._here.in_library and loop is not None and loop.booster is booster:
            loop.evaluated(args[0] if args else kwargs.get("evals", ()), text)

    def _is_watched(self, model: Any, table: Any) -> bool:
        targets = self._targets
        return not targets or any(
            target is model or target is table or _is_fitting(target) for target in targets
        )


class _Thread(threading.local):
    """Where a thread is: trainings of several threads do not know of one another.

    `in_library`: between the beginning and the end of a round of the library's own loop;
    `depth` counts calls of `update` and `boost` that are not over.
    """

    in_library = False
    depth = 0
    loop: _OwnLoop | None = None


class _OwnLoop:
    """The round in progress of a booster that the script updates itself."""

    def __init__(self, booster: xgboost.Booster, table: xgboost.DMatrix | None) -> None:
        self.booster, self._table = booster, table
        self._evals: list[Any] = []
        self._history: dict[str, dict[str, list[float]]] = {}

    def evaluated(self, evals: Sequence[Any], text: str) -> None:
        """Take what the booster says of its metrics: `[3]<tab>train-rmse:0.2`."""
        self._evals += evals
        for entry in text.split("\t")[1:]:
            name, _, value = entry.rpartition(":")
            site, _, metric = name.partition("-")
            self._history.setdefault(site, {})[metric] = [float(value)]

    def close(self, rounds: Rounds) -> None:
        """Tell of the round."""
        made = self.booster.num_boosted_rounds() - 1
        rounds.closed(
            self.booster, self.booster, made, self._table, tuple(self._evals), self._history
        )


def _is_fitting(target: object) -> bool:
    """Whether an estimator's `fit` is running."""
    if not isinstance(target, xgboost.XGBModel):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is target:
            return True
        frame = frame.f_back
    return False


def _drop_own_frame(err: BaseException) -> None:
    if err.__traceback__ is not None:
        err.__traceback__ = err.__traceback__.tb_next
