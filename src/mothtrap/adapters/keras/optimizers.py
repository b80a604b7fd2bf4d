"""Keras optimizers: learning rate, settings, loss scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from mothtrap.adapters.keras.layers import LOCATIONS
from mothtrap.adapters.keras.state import read
from mothtrap.core.adapters import Job
from mothtrap.core.facts.epochs import WeightsAveraged
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.tracing.describe.optimizers import has_second_moments
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.steps.takeovers import Takeovers


def innermost(optimizer: Any) -> Any:
    """Return the optimizer inside a loss-scale wrapper, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def state_of(optimizer: Any) -> list[Any]:
    """Return an optimizer's variables except its rate and update count."""
    inner = innermost(optimizer)
    own = {id(inner.iterations), id(getattr(inner, "_learning_rate", None))}
    return [variable for variable in inner.variables if id(variable) not in own]


def loss_scale(optimizer: Any) -> float:
    """Return the loss scale; 1 without loss scaling."""
    scale = getattr(optimizer, "dynamic_scale", None)
    return float(keras.ops.convert_to_numpy(scale)) if scale is not None else 1.0


def learning_rate(optimizer: Any) -> float:
    """Return the rate of the latest update."""
    inner = innermost(optimizer)
    schedule = getattr(inner, "_learning_rate", None)
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        made = int(keras.ops.convert_to_numpy(inner.iterations))
        return float(keras.ops.convert_to_numpy(schedule(max(0, made - 1))))
    if isinstance(schedule, keras.Variable):
        return float(read(schedule).numpy())
    return float(keras.ops.convert_to_numpy(inner.learning_rate))


@dataclass(frozen=True, slots=True)
class Clipping:
    """The norm limit of an optimizer: for all gradients together, or each separately."""

    limit: float
    together: bool

    def norm_of(self, norm_N: Any) -> float:
        """Return the norm to compare with the limit; for separate gradients, the median.

        Args:
            norm_N: norm of each gradient, shape (N,), N > 0.
        """
        return float(np.sqrt(np.square(norm_N).sum()) if self.together else np.median(norm_N))

    def clipped(self, norm_N: Any) -> float:
        """Return the norm of all gradients after clipping.

        Args:
            norm_N: norm of each gradient before clipping, shape (N,).
        """
        if self.together:
            return min(math.hypot(*norm_N), self.limit)
        return math.hypot(*np.minimum(norm_N, self.limit))


def clipping(optimizer: Any) -> Clipping | None:
    """Return how an optimizer clips gradients by norm; None if it does not."""
    inner = innermost(optimizer)
    whole, single = (getattr(inner, name, None) for name in ("global_clipnorm", "clipnorm"))
    limit = whole or single
    return Clipping(float(limit), bool(whole)) if limit else None


def averaged_weights(optimizer: Any, step: int) -> WeightsAveraged | None:
    """Return the change an optimizer makes to the weights when training ends, or None."""
    inner = innermost(optimizer)
    if not getattr(inner, "use_ema", False) or inner.ema_overwrite_frequency:
        return None
    return WeightsAveraged(
        step=step,
        momentum=float(inner.ema_momentum),
        updates=int(read(inner.iterations).numpy()),
        location=LOCATIONS.get(inner),
    )


class OptimizerLedger:
    """Reports properties of optimizers, and the learning rate of each step.

    Args:
        job: receives the values.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._said: ByIdentity[Any, tuple[object, ...]] = ByIdentity()
        self._takeovers = Takeovers(lambda one: int(read(one.iterations).numpy()))

    def step(self, optimizer: Any) -> None:
        """Report an optimizer that has made a step."""
        rate = learning_rate(optimizer)
        self._job.scalar("lr", optimizer.name, rate)
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            self._job.scalar("loss_scale", optimizer.name, loss_scale(optimizer))
        inner = innermost(optimizer)
        decay = float(getattr(inner, "weight_decay", None) or 0.0)
        settings = (type(inner).__name__, decay, getattr(inner, "epsilon", None))
        if self._said.get(optimizer) == settings:
            return
        is_new = optimizer not in self._said
        self._said[optimizer] = settings
        kind = type(inner).__name__
        variables = list(getattr(inner, "_trainable_variables", ()))
        begins = is_new and bool(variables)
        self._job.fact(
            OptimizerFacts(
                step=self._job.now.step,
                optimizer=optimizer.name,
                kind=kind,
                learning_rate=rate,
                weight_decay=decay,
                decoupled=True,  # in Keras, `weight_decay` is never part of the gradient
                momentum=float(getattr(inner, "momentum", None) or 0.0),
                epsilon=getattr(inner, "epsilon", None),
                second_moments=has_second_moments(kind),
                state_dtype=str(variables[0].dtype) if variables else "",
                takes_over=begins and self._takeovers.begins(inner, variables[0]),
                elements=sum(math.prod(v.shape) for v in variables),
                weight_dtypes=tuple(sorted({str(v.dtype) for v in variables})),
                location=LOCATIONS.get(inner),
            )
        )
