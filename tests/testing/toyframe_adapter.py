"""The adapter of `toyframe`: the whole of what an adapter needs, as an example."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from tests.testing import toyframe

from mothtrap.core.adapters import Environment, Given, Job, Losses
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

FRAMEWORK = "toyframe"
REQUIRES = "numpy>=1.23.5"
ARRAYS = "numpy"
STEPS: Literal["own", "base", "none"] = "own"
REPORTS = Reports(
    kinds=frozenset({"weight", "gradient"}),
    scalars=frozenset({"loss", "lr"}),
    facts=frozenset({LossSeries, Evaluation, EvaluationMetrics}),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)


class Handle:
    """Stands around `update` and `evaluate` until it is detached.

    Args:
        job: takes what is seen.
        targets: models that are watched; none = all.
    """

    honors = WITHOUT_SNAPSHOTS
    snapshots = None

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._job, self._targets = job, targets
        self._ids: dict[str, int] = {}
        self._originals = toyframe.Model.update, toyframe.Model.evaluate
        update, evaluate = self._originals
        handle = self

        @functools.wraps(update)
        def watched_update(self: toyframe.Model, x: Any, y: Any, rate: float) -> float:
            if handle._watches(self):
                job.contain(handle._before, self, x, y, rate)
            loss = update(self, x, y, rate)
            if handle._watches(self):
                job.contain(handle._after, self, loss)
            return loss

        @functools.wraps(evaluate)
        def watched_evaluate(self: toyframe.Model, x: Any, y: Any) -> float:
            loss = evaluate(self, x, y)
            if handle._watches(self):
                job.contain(handle._evaluated, loss, len(y))
            return loss

        toyframe.Model.update, toyframe.Model.evaluate = watched_update, watched_evaluate  # type: ignore[method-assign]

    def _watches(self, model: toyframe.Model) -> bool:
        return not self._targets or any(target is model for target in self._targets)

    def _before(self, model: toyframe.Model, x: Any, y: Any, rate: float) -> None:
        self._job.scalar("lr", "descent", rate)
        if self._job.wants("gradient"):  # worked out a second time, where the framework hides it
            self._take("gradient", model.gradient(x, y))

    def _after(self, model: toyframe.Model, loss: float) -> None:
        if self._job.wants("weight"):
            self._take("weight", model.weight)
        self._job.stood_ready((LossSeries, Evaluation, EvaluationMetrics))
        self._job.step([Losses(series="squared error", value=loss)], optimizer="descent")

    def _take(self, kind: Any, array: np.ndarray) -> None:
        if kind not in self._ids:
            info = TensorInfo(kind=kind, name="weight", shape=array.shape, dtype=array.dtype.name)
            self._ids[kind] = self._job.define(info)
        self._job.take(kind, [self._ids[kind]], [array])

    def _evaluated(self, loss: float, rows: int) -> None:
        self._job.evaluation("held out", {"squared error": loss}, loss="squared error", rows=rows)

    def step(self, given: Given) -> None:
        for name, value in given.numbers.items():
            self._job.number(name, value)

    def surroundings(self) -> None:
        return None

    def stop(self, reason: str) -> bool:
        return False  # the loop is the script's own

    def detach(self) -> None:
        toyframe.Model.update, toyframe.Model.evaluate = self._originals  # type: ignore[method-assign]

    def abandon(self) -> None:
        self._job.live = False


def refines() -> str | None:
    return None


def accepts(target: object) -> bool:
    return isinstance(target, toyframe.Model)


def attach(job: Job, targets: Sequence[object]) -> Handle:
    return Handle(job, targets)


def attach_process(job: Job) -> Handle:
    return Handle(job)


def attach_replay(plan: ReplayPlan) -> None:
    raise NotImplementedError("toyframe leaves no snapshots")


def environment() -> Environment:
    return Environment(versions={"toyframe": "1", "numpy": np.__version__})
