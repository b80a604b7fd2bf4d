"""TensorFlow loops that update variables themselves, without a Keras optimizer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow import raw_losses
from mothtrap.adapters.tensorflow.hooks import LOOKS, SHARED
from mothtrap.adapters.tensorflow.probes.logged import GRAPH_LOG
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.adapters.tensorflow.read_once import ProgramsRead
from mothtrap.adapters.tensorflow.reports import EVERY_STEP
from mothtrap.adapters.tensorflow.retracing import Traces
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.core.tensors import TensorInfo
from mothtrap.tracing.describe import directions
from mothtrap.tracing.observing_handle import ObservingHandle
from mothtrap.tracing.replacements import Replacements

OPTIMIZER: Final = "tape"


class TensorFlowHandle(ObservingHandle):
    """Handle for TensorFlow: a step is a gradient of a loss with respect to variables.

    Args:
        job: receives the observations.
        targets: modules whose variables are watched; empty = the whole process.
    """

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._traces, self._reads = Traces(job), ProgramsRead(job)
        self._only = {id(v) for target in targets for v in getattr(target, "variables", ())}
        self._ids: dict[tuple[str, int], int] = {}
        self._held: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self._named: Counter[str] = Counter()
        self._values: dict[int, Any] = {}  # from the previous step
        self._directed = 0
        self._is_broken = False  # the latest gradients
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        """Listen to tapes and functions, which all TensorFlow-based adapters share."""
        SHARED.join(self, self.job.contain)
        replacements.on_undo(lambda: SHARED.leave(self))
        GRAPH_LOG.join(self.job)

    def end(self) -> None:
        """Close the last step."""
        self.tape_began()

    def busy(self) -> bool:
        """Return False, because steps are known only when they are over."""
        return False

    def began(self) -> None:
        """Record a step of the eager tape before this function, if there was one."""
        self.tape_began()
        function = LOOKS.owner
        if function is not None:
            self._reads.began(function, lambda: [(function.python_function, None)], LOOKS.given)

    def take_ending(self) -> None:
        """Return None, because steps of custom loops are not undone."""

    def interrupted(self) -> None:
        """Record a step of the eager tape because another framework continues."""
        self.tape_began()

    def ended(self, function: Any, traces: int, looks: list[Look]) -> bool:
        """Record a step of a function with gradients of variables but no optimizer."""
        self._reads.ended(function)
        own = [look for look in looks if look.plain and not look.applied]
        if own:
            self._traces.called(function, traces)
        return self._make_step(own)

    def tape_began(self) -> None:
        """Record a step from the previous tape's observations."""
        look = LOOKS.eager
        if look.plain and not look.applied:
            LOOKS.eager = Look()
            self._make_step([look])

    def _make_step(self, looks: list[Look]) -> bool:
        pairs = [pair for look in looks for pair in look.plain if self._is_watched(pair[0])]
        if not pairs:
            return False
        passed_by = not self.job.is_full() and any(one.by_hand for one in looks)
        wanted = self.job.wants("gradient") and not passed_by
        gradients: list[Any] = []
        if wanted:
            ids = [self._tensor("gradient", variable) for variable, _ in pairs]
            gradients = [slot.read() for _, slot in pairs]
            self.job.take("gradient", ids, gradients)
            if self._directed <= directions.STEPS:
                self._direct([variable for variable, _ in pairs], gradients)
        # Variables are read after the update, because damage by a gradient belongs to the next
        # step.
        was_broken, self._is_broken = self._is_broken, not all(map(_is_finite, gradients))
        if was_broken or not self._is_broken:
            self._take_values(list({id(variable): variable for variable, _ in pairs}.values()))
        losses = {}
        for look in looks if not passed_by else ():
            raw_losses.report(look, self.job, self.job.now.step, None)
        for look in looks:
            for target in look.targets:
                series = os.path.basename(target.location or "loss")
                value = float(target.value.read())
                losses[series] = Losses(series=series, value=value, location=target.location)
                if target.broadcast is not None and not passed_by:
                    step, place = self.job.now.step, target.location
                    self.job.fact(target.broadcast.fact(step, series, place))
        self.job.stood_ready(EVERY_STEP)
        self.job.step(list(losses.values()), optimizer=OPTIMIZER)
        return True

    def _take_values(self, variables: Sequence[Any]) -> None:
        for kind in ("weight", "bias"):
            chosen = [v for v in variables if (len(v.shape) < 2) == (kind == "bias")]
            if chosen and self.job.wants(kind):
                ids = [self._tensor(kind, variable) for variable in chosen]
                self.job.take(kind, ids, [variable.numpy() for variable in chosen])

    def _direct(self, variables: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Report in which direction a step has moved the variables since the previous step."""
        before = self._values
        self._values = {id(v): directions.elements(v.numpy()) for v in variables}
        self._directed += 1
        found = directions.cosines(
            (self._name(variable), gradient, before[id(variable)], self._values[id(variable)])
            for variable, gradient in zip(variables, gradients, strict=True)
            if id(variable) in before
        )
        if found:
            self.job.fact(
                UpdateDirection(
                    step=self.job.now.step,
                    optimizer=OPTIMIZER,
                    layers=tuple(found),
                    cosines=tuple(found.values()),
                )
            )

    def _is_watched(self, variable: Any) -> bool:
        if id(variable) in LOOKS.optimized:
            return False  # an optimizer makes the steps
        return not self._only or id(variable) in self._only

    def _name(self, variable: Any) -> str:
        """Return the name of a variable; if several have the same name, the second is `name_1`."""
        known = self._names.get(id(variable))
        if known is None:
            own = str(getattr(variable, "path", variable.name)).partition(":")[0]
            number = self._named[own]
            self._named[own] += 1
            known = self._names[id(variable)] = f"{own}_{number}" if number else own
            self._held[id(variable)] = variable  # keeps the identity
        return known

    def _tensor(self, kind: str, variable: Any) -> int:
        key = kind, id(variable)
        if key not in self._ids:
            info = TensorInfo(
                kind=kind,
                name=self._name(variable),
                shape=tuple(tf.TensorShape(variable.shape).as_list()),
                dtype=tf.as_dtype(variable.dtype).name,
            )
            self._ids[key] = self.job.define(info)
        return self._ids[key]


def _is_finite(gradient: Any) -> bool:
    return bool(np.isfinite(gradient).all())
