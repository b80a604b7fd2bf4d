"""Calls of models: the scale of their inputs, and how they run where nothing is trained."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import layers, names
from mothtrap.adapters.tensorflow.looks import Array, Look, ModelCall
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.steps import Mode

MAX_NAMES: Final = 8
MAX_CELLS: Final = 1 << 24
"""Cells of an array that are looked at: some 50 ms, once."""
TRAIN_LOOKS: Final = 4
"""Batches of training whose scale is told."""
EVALUATIONS: Final = 3
"""Evaluations in which the scale is told."""
EVAL_LOOKS: Final = 4
"""Batches of an evaluation whose scale is told."""


@dataclass(slots=True, kw_only=True)
class _Phase:
    """The evaluation in progress of one model."""

    first: ModelCall
    forwards: int = 0
    losses: int = 0
    trains: bool = True
    repeated: bool = False
    rows: Array | None = None


class ModelCalls:
    """Reports calls of the models that are trained.

    Args:
        job: takes the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._told: set[tuple[int, Mode]] = set()
        self._looks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._evaluations: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._latest: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._open: dict[int, _Phase] = {}

    def told(self, model: Any, mode: Mode) -> None:
        """Take that the inputs of a model were looked at as a whole."""
        self._told.add((id(model), mode))

    def trained(self, looks: Sequence[Look]) -> None:
        """Take what models were called with in a step of training."""
        for look in looks:
            for call in look.models:
                count = self._looks.get(call.model, 0)
                if call.given is not None and count < TRAIN_LOOKS:
                    self._looks[call.model] = count + 1
                    self._tell_scale(call, call.given.read(), Mode.TRAIN)

    def ran(self, looks: Sequence[Look], trained: Collection[int]) -> None:
        """Take programs that made no step.

        Args:
            looks: at them.
            trained: identities of the variables that optimizers hold.
        """
        for look in looks:
            for call in look.models:
                self.evaluated(call, trained)
            for _ in look.evaluated:
                self.lost()

    def evaluated(self, call: ModelCall, trained: Collection[int]) -> None:
        """Take a call of a model outside of any tape."""
        weights = call.model.trainable_variables
        if call.model not in self._looks and not any(id(one) in trained for one in weights):
            return
        phase = self._open.setdefault(id(call.model), _Phase(first=call))
        phase.forwards += 1
        phase.trains &= bool(call.training)
        number = self._evaluations.get(call.model, 0)
        if call.given is None or number >= EVALUATIONS or phase.forwards > EVAL_LOOKS:
            return
        rows = call.given.read()
        phase.repeated |= phase.rows is not None and np.array_equal(rows, phase.rows)
        phase.rows = rows
        self._tell_scale(call, rows, Mode.EVAL)

    def lost(self) -> None:
        """Take that a loss was computed of what models gave."""
        for phase in self._open.values():
            phase.losses += 1

    def tell(self) -> None:
        """Report the evaluations that have ended."""
        if not self._open:
            return
        found, self._open = self._open, {}
        for phase in found.values():
            model, step = phase.first.model, self._job.now.step
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
                    output_shape=phase.first.shape,
                    location=phase.first.location,
                )
            )

    def _tell_scale(self, call: ModelCall, rows: Array, mode: Mode) -> None:
        if (id(call.model), mode) in self._told:
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
