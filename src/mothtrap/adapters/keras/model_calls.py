"""Calls to models: the scale of their inputs, and evaluations."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import internals, layers
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import Look, ModelCall
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.input_scales import input_scale
from mothtrap.tracing.describe.loop_rows import LoopRows

MAX_NAMES: Final = 8
FIRST_LOOKS: Final = 4
"""Number of first training batches whose scale is recorded; later one in N steps:"""
EVERY: Final = 50
TRAIN_LOOKS: Final = 64
"""Maximum number of training batches whose scale is recorded."""
SCALES: Final = 3
"""Maximum number of evaluations in which the scale is recorded."""
EVAL_LOOKS: Final = 4
"""Maximum number of batches of an evaluation whose scale is recorded."""
EVALUATIONS: Final = 8
"""Maximum number of described evaluations of a model."""
FOREIGN: Final = 3
"""Number of calls after which a model without an optimizer counts as untrained."""


@dataclass(slots=True)
class _Model:
    """State of one model.

    Attributes:
        described: Modes in which its inputs were described as a whole.
        scaled_at: Steps at which the scale of a batch was reported.
        evaluations: Evaluations so far.
        latest: The step of the latest one.
        foreign: Calls so far in which no optimizer held it.
    """

    described: set[Mode] = field(default_factory=set)
    scaled_at: list[int] = field(default_factory=list)
    evaluations: int = 0
    latest: int = 0
    foreign: int = 0


@dataclass(slots=True, kw_only=True)
class _Phase:
    """The evaluation of one model in progress; `first`: no other model was called before it."""

    call: ModelCall
    first: bool
    forwards: int = 0
    losses: int = 0
    trains: bool = True
    repeated: bool = False
    seen: set[int] = field(default_factory=set)
    gave: Any = None


class ModelCalls:
    """Reports calls to trained models.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()
        self._open: dict[int, _Phase] = {}
        self._rows = LoopRows(job, "the model")

    def stepped(self, given: Any) -> None:
        """Record the arguments of a function that has made a step in a custom loop."""
        self._rows.trained(_host(given))

    def told(self, model: Any, mode: Mode) -> None:
        """Mark the inputs of a model as already described."""
        self._known(model).described.add(mode)

    def trained(self, looks: Sequence[Look]) -> None:
        """Record the inputs of the first model in a step."""
        step = self._job.now.step
        for call in [call for look in looks for call in look.models][:1]:
            steps = self._known(call.model).scaled_at
            is_due = len(steps) < FIRST_LOOKS or step - steps[-1] >= EVERY
            if call.given is not None and is_due and len(steps) < TRAIN_LOOKS:
                steps.append(step)
                self._report_scale(call, call.given.read(), Mode.TRAIN)

    def ran(
        self, looks: Sequence[Look], trained: Callable[[], Collection[int]], given: Any
    ) -> None:
        """Process programs that made no step.

        Args:
            looks: observations of the programs.
            trained: returns the identities of the variables in optimizers.
            given: arguments of the function that ran them.
        """
        models = [call.model for look in looks for call in look.models]
        if models and self.wants(models[0]):
            place = next(look.models[0].location for look in looks if look.models)
            self._rows.evaluated(place or "calls", _host(given), place)
        for look in looks:
            for call in look.models:
                self.evaluated(call, trained)
            phase = self._open.get(id(look.models[0].model)) if len(look.models) == 1 else None
            if phase is not None:
                phase.losses += len(look.evaluated)

    def wants(self, model: Any) -> bool:
        """Return whether evaluations of a model are still described."""
        known = self._known(model)
        return known.foreign < FOREIGN and known.evaluations < EVALUATIONS

    def evaluated(self, call: ModelCall, trained: Callable[[], Collection[int]]) -> None:
        """Record a model call outside any tape.

        Args:
            call: call to the model.
            trained: returns the identities of the variables in optimizers.
        """
        model, known = call.model, self._known(call.model)
        if not self.wants(model):
            return
        phase = self._open.get(id(model))
        if phase is None:
            held = trained()
            if not any(id(one) in held for one in model.trainable_variables):
                known.foreign += 1
                return
            phase = self._open[id(model)] = _Phase(call=call, first=not self._open)
        phase.forwards += 1
        phase.trains &= bool(call.training)
        phase.gave = None if call.gave is None else weakref.ref(call.gave)
        if call.gave is not None and call.given is not None:
            self._rows.evaluated(call.location or "calls", [call.given.read()], call.location)
        scales = phase.first and known.evaluations < SCALES and phase.forwards <= EVAL_LOOKS
        if call.given is None or not (scales or call.training):
            return
        rows = call.given.read()
        if call.training:
            digest = hash(rows.tobytes())
            phase.repeated |= digest in phase.seen
            phase.seen.add(digest)
        if scales:
            self._report_scale(call, rows, Mode.EVAL)

    def lost(self, prediction: Any) -> None:
        """Record that a loss was computed from a model's output."""
        for phase in list(self._open.values()):
            phase.losses += phase.gave is not None and phase.gave() is prediction

    def report(self) -> None:
        """Report the evaluations that have ended."""
        self._rows.ended()
        if not self._open:
            return
        found, self._open = self._open, {}
        for phase in found.values():
            model, step = phase.call.model, self._job.now.step
            known = self._known(model)
            number, known.evaluations = known.evaluations, known.evaluations + 1
            steps, known.latest = step - known.latest, step
            awake = list(internals.leaves(model)) if phase.trains else []
            dropouts = [layers.name_of(one) for one in awake if layers.is_dropout(one)]
            norms = [layers.name_of(one) for one in awake if layers.is_batch_norm(one)]
            self._job.fact(
                EvaluationPhase(
                    step=step,
                    mode=Mode.EVAL,
                    module=layers.name_of(model),
                    module_type=layers.type_of(model),
                    forwards=phase.forwards,
                    trains=phase.trains,
                    number=number,
                    steps=steps,
                    labelled=phase.losses,
                    repeated=phase.repeated,
                    dropouts=tuple(dropouts[:MAX_NAMES]),
                    norms=tuple(norms[:MAX_NAMES]),
                    output_shape=phase.call.shape,
                    location=phase.call.location,
                )
            )

    def _known(self, model: Any) -> _Model:
        return self._models.setdefault(model, _Model())

    def _report_scale(self, call: ModelCall, rows: Array, mode: Mode) -> None:
        if mode in self._known(call.model).described:
            return
        found = scale(call.model, 0, rows, mode, self._job.now.step, call.location)
        if found is not None:
            self._job.fact(found)


def _host(given: Any) -> list[Array]:
    """Return the arrays among the arguments of a function that can be read without a copy."""
    found = []
    for one in tf.nest.flatten(given):
        is_here = tf.is_tensor(one) and hasattr(one, "numpy") and "CPU" in str(one.device)
        array = one.numpy() if is_here and one.dtype.is_floating | one.dtype.is_integer else one
        if isinstance(array, np.ndarray):
            found.append(array)
    return found


def scale(
    model: Any, place: int, array: Array, mode: Mode, step: int, location: str | None
) -> InputDistribution | None:
    """Return the mean and standard deviation of a model input; None if there is none.

    Args:
        model: model with the input.
        place: position of the input among the model's inputs.
        array: some rows, or all.
        mode: mode of the call.
        step: step of training.
        location: the line to change.
    """
    return input_scale(
        array,
        module=str(model.name),
        argument="x" if place == 0 else f"x[{place}]",
        mode=mode,
        step=step,
        location=location,
    )
