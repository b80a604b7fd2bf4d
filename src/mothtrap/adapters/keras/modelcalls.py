"""Calls of models: the scale of their inputs, and how they run where nothing is trained."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import layers, names
from mothtrap.adapters.tensorflow.cells import Array
from mothtrap.adapters.tensorflow.looks import Look, ModelCall
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.steps import Mode

MAX_NAMES: Final = 8
MAX_CELLS: Final = 1 << 24
"""Cells of an array that are looked at: some 50 ms, once."""
FIRST_LOOKS: Final = 4
"""Batches of training whose scale is told, at first; from then on one in so many steps:"""
EVERY: Final = 50
TRAIN_LOOKS: Final = 64
"""Batches of training whose scale is told at most."""
SCALES: Final = 3
"""Evaluations in which the scale is told."""
EVAL_LOOKS: Final = 4
"""Batches of an evaluation whose scale is told."""
EVALUATIONS: Final = 8
"""Evaluations of a model that are described."""
FOREIGN: Final = 3
"""Calls after which a model that no optimizer holds is none that is trained."""


@dataclass(slots=True, kw_only=True)
class _Phase:
    """The evaluation in progress of one model; `first`: no other was called before it."""

    call: ModelCall
    first: bool
    forwards: int = 0
    losses: int = 0
    trains: bool = True
    repeated: bool = False
    seen: set[int] = field(default_factory=set)
    gave: Any = None


class ModelCalls:
    """Reports calls of the models that are trained.

    Args:
        job: takes the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._told: weakref.WeakKeyDictionary[Any, set[Mode]] = weakref.WeakKeyDictionary()
        self._looks: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._evaluations: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._foreign: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._latest: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._open: dict[int, _Phase] = {}

    def told(self, model: Any, mode: Mode) -> None:
        """Take that the inputs of a model were looked at as a whole."""
        self._told.setdefault(model, set()).add(mode)

    def trained(self, looks: Sequence[Look]) -> None:
        """Take what the first model of a step was called with."""
        step = self._job.now.step
        for call in [call for look in looks for call in look.models][:1]:
            steps = self._looks.setdefault(call.model, [])
            is_due = len(steps) < FIRST_LOOKS or step - steps[-1] >= EVERY
            if call.given is not None and is_due and len(steps) < TRAIN_LOOKS:
                steps.append(step)
                self._tell_scale(call, call.given.read(), Mode.TRAIN)

    def ran(self, looks: Sequence[Look], trained: Callable[[], Collection[int]]) -> None:
        """Take programs that made no step.

        Args:
            looks: at them.
            trained: returns the identities of the variables that optimizers hold.
        """
        for look in looks:
            for call in look.models:
                self.evaluated(call, trained)
            phase = self._open.get(id(look.models[0].model)) if len(look.models) == 1 else None
            if phase is not None:
                phase.losses += len(look.evaluated)

    def wants(self, model: Any) -> bool:
        """Return whether evaluations of a model are still described."""
        if self._foreign.get(model, 0) >= FOREIGN:
            return False
        return self._evaluations.get(model, 0) < EVALUATIONS

    def evaluated(self, call: ModelCall, trained: Callable[[], Collection[int]]) -> None:
        """Take a call of a model outside of any tape.

        Args:
            call: of the model.
            trained: returns the identities of the variables that optimizers hold.
        """
        model = call.model
        if not self.wants(model):
            return
        phase = self._open.get(id(model))
        if phase is None:
            held = trained()
            if not any(id(one) in held for one in model.trainable_variables):
                self._foreign[model] = self._foreign.get(model, 0) + 1
                return
            phase = self._open[id(model)] = _Phase(call=call, first=not self._open)
        phase.forwards += 1
        phase.trains &= bool(call.training)
        phase.gave = None if call.gave is None else weakref.ref(call.gave)
        number = self._evaluations.get(model, 0)
        scales = phase.first and number < SCALES and phase.forwards <= EVAL_LOOKS
        if call.given is None or not (scales or call.training):
            return
        rows = call.given.read()
        if call.training:
            digest = hash(rows.tobytes())
            phase.repeated |= digest in phase.seen
            phase.seen.add(digest)
        if scales:
            self._tell_scale(call, rows, Mode.EVAL)

    def lost(self, prediction: Any) -> None:
        """Take that a loss was computed of what a model gave."""
        for phase in list(self._open.values()):
            phase.losses += phase.gave is not None and phase.gave() is prediction

    def tell(self) -> None:
        """Report the evaluations that have ended."""
        if not self._open:
            return
        found, self._open = self._open, {}
        for phase in found.values():
            model, step = phase.call.model, self._job.now.step
            number = self._evaluations.get(model, 0)
            self._evaluations[model] = number + 1
            steps, self._latest[model] = step - self._latest.get(model, 0), step
            awake = list(names.leaves(model)) if phase.trains else []
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

    def _tell_scale(self, call: ModelCall, rows: Array, mode: Mode) -> None:
        if mode in self._told.get(call.model, ()):
            return
        found = scale(call.model, 0, rows, mode, self._job.now.step, call.location)
        if found is not None:
            self._job.fact(found)


def scale(
    model: Any, place: int, array: Array, mode: Mode, step: int, location: str | None
) -> InputDistribution | None:
    """Return the mean and deviation of an input of a model; None where it has none.

    Args:
        model: that takes it.
        place: of the input among those of the model.
        array: some rows, or all.
        mode: in which the model takes it.
        step: of training.
        location: the line to act in.
    """
    if array.dtype.kind not in "fiu" or array.ndim < 2 or not len(array):
        return None
    rows = array[:: max(1, len(array) // 4096)]
    values = rows.reshape(-1)[:MAX_CELLS].astype(np.float64)
    if not np.isfinite(values).all():
        return None
    return InputDistribution(
        step=step,
        mode=mode,
        module=str(model.name),
        argument="x" if place == 0 else f"x[{place}]",
        rows=len(rows),
        mean=float(values.mean()),
        std=float(values.std()),
        location=location,
    )
