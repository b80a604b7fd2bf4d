"""The adapter of `toyframe`: an example of everything that an adapter needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.testing import toyframe

from mothtrap.core.adapters import Environment, Job, Losses
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.tracing.handle import AdapterSpec, BaseHandle
from mothtrap.tracing.replacements import Replacements


class Handle(BaseHandle):
    """Replaces `update` and `evaluate` until it is detached."""

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._ids: dict[str, int] = {}
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        replacements.around(toyframe.Model, "update", self._before, self._after)
        replacements.around(toyframe.Model, "evaluate", None, self._evaluated)

    def _before(self, model: toyframe.Model, args: Any, kwargs: Any) -> None:
        if not self.watches(model):
            return
        x, y, rate = (*args, *(kwargs[name] for name in ("x", "y", "rate")[len(args) :]))
        self.job.scalar("lr", "descent", rate)
        if self.job.wants("gradient"):  # computed a second time, because the framework hides it
            self._take("gradient", model.gradient(x, y))

    def _after(self, model: toyframe.Model, loss: float, *_: object) -> None:
        if not self.watches(model):
            return
        if self.job.wants("weight"):
            self._take("weight", model.weight)
        self.job.stood_ready((LossSeries, Evaluation, EvaluationMetrics))
        self.job.step([Losses(series="squared error", value=loss)], optimizer="descent")

    def _take(self, kind: str, array: np.ndarray) -> None:
        if kind not in self._ids:
            info = TensorInfo(kind=kind, name="weight", shape=array.shape, dtype=array.dtype.name)
            self._ids[kind] = self.job.define(info)
        self.job.take(kind, [self._ids[kind]], [array])

    def _evaluated(self, model: Any, loss: float, args: Any, kwargs: Any, _: None) -> None:
        if self.watches(model):
            values, rows = {"squared error": loss}, len(args[0] if args else kwargs["x"])
            self.job.evaluation("held out", values, loss="squared error", rows=rows)


ADAPTER = AdapterSpec(
    framework="toyframe",
    handle=Handle,
    requires="numpy>=1.23.5",
    reports=Reports(
        kinds=frozenset({"weight", "gradient"}),
        scalars=frozenset({"loss", "lr"}),
        facts=frozenset({LossSeries, Evaluation, EvaluationMetrics}),
        modes=frozenset({Mode.TRAIN, Mode.EVAL}),
    ),
    watched=(toyframe.Model,),
    place=lambda: Environment(versions={"toyframe": "1"}),
)
