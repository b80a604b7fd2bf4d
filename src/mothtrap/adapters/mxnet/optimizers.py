"""Trainers of Gluon: their settings, rates, gradients and weights.

Shape suffix: N = elements.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.tracing.describe import weights
from mothtrap.tracing.describe.optimizers import has_second_moments
from mothtrap.tracing.source import frames

Array = npt.NDArray[Any]


class Parameters:
    """Trainers, with gradients and weights of their parameters.

    Args:
        job: receives the arrays.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, str], int] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def before(self, trainer: Any, scale: float) -> None:
        """Capture gradients as applied: `scale` times the result of backward."""
        trained = _trained(trainer)
        is_first = trainer not in self._names
        if not is_first and not self._job.wants("gradient"):
            return
        gradients = []
        for parameter in trained:
            parts = [part.asnumpy() for part in parameter.list_grad()]
            gradients.append((parts[0] if len(parts) == 1 else np.sum(parts, axis=0)) * scale)
        if is_first:
            self._begin(trainer, trained)
            for parameter, gradient in zip(trained, gradients, strict=True):
                self._report_initial(parameter, gradient)
        if self._job.wants("gradient"):
            self._take("gradient", trained, gradients)

    def after(self, trainer: Any) -> str:
        """Capture the weights and rate of a completed step; return the optimizer's name."""
        self.take_weights(_trained(trainer))
        name = self._names[trainer]
        self._job.scalar("lr", name, float(trainer.learning_rate))
        return name

    def take_weights(self, parameters: Sequence[Any], mode: Mode = Mode.TRAIN) -> None:
        """Capture the parameter values that are due in a mode."""
        for kind in ("weight", "bias"):
            chosen = [each for each in parameters if _kind(each) == kind]
            if chosen and self._job.wants(kind, mode):
                values = [each.list_data()[0].asnumpy() for each in chosen]
                self._take(kind, chosen, values, mode)

    def _take(
        self, kind: str, parameters: Sequence[Any], arrays: list[Array], mode: Mode = Mode.TRAIN
    ) -> None:
        for parameter in parameters:
            if (kind, parameter.name) not in self._ids:
                self._ids[kind, parameter.name] = self._job.define(
                    TensorInfo(
                        kind=kind,
                        name=parameter.name,
                        module=_layer_of(parameter),
                        shape=tuple(parameter.shape),
                        dtype=np.dtype(parameter.dtype).name,
                    )
                )
        ids = [self._ids[kind, each.name] for each in parameters]
        self._job.take(kind, ids, arrays, mode=mode)

    def _begin(self, trainer: Any, trained: Sequence[Any]) -> None:
        optimizer, rate = trainer.optimizer, float(trainer.learning_rate)
        kind = type(optimizer).__name__
        has_moments = has_second_moments(kind)
        number = sum(known.partition("#")[0] == kind for known in self._names.values())
        name = self._names[trainer] = f"{kind}#{number}" if number else kind
        self._job.fact(
            OptimizerFacts(
                step=self._job.now.step,
                optimizer=name,
                kind=kind,
                learning_rate=rate,
                weight_decay=float(optimizer.wd),
                momentum=float(getattr(optimizer, "momentum", None) or 0.0),
                epsilon=getattr(optimizer, "epsilon", None),
                second_moments=has_moments,
                state_dtype="float32" if has_moments else "",
                compensated=bool(getattr(optimizer, "multi_precision", False)),
                elements=sum(math.prod(each.shape) for each in trained),
                weight_dtypes=tuple(sorted({np.dtype(each.dtype).name for each in trained})),
                stepped_at=frames.user_location(),
            )
        )

    def _report_initial(self, parameter: Any, gradient: Array) -> None:
        if len(parameter.shape) < 2:
            return
        weight = weights.Weight(
            self._job.now.step, parameter.name, _layer_of(parameter), "", parameter.shape[0]
        )
        sizes = weights.sizes_of(parameter.list_data()[0].asnumpy(), gradient)
        self._job.fact(weights.initial(weight, sizes, fan_in=math.prod(parameter.shape[1:])))


def _trained(trainer: Any) -> list[Any]:
    return [each for each in trainer._params if each.grad_req != "null"]


def _kind(parameter: Any) -> str:
    return "bias" if parameter.name.endswith(("bias", "beta")) else "weight"


def _layer_of(parameter: Any) -> str:
    return str(parameter.name).rpartition("_")[0]
