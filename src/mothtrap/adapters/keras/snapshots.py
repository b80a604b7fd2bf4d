"""Take snapshots of steps under `fit` and `train_on_batch`: state before, batch, and result.

A snapshot is taken after its step, from the state that the program or mothtrap kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import optimizers
from mothtrap.adapters.keras.loop_state import REST, HeldLoop, in_snapshot, on_host
from mothtrap.adapters.keras.state import Held, array_of
from mothtrap.adapters.tensorflow.probes.batches import Batches, stateful_randomness
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder
from mothtrap.core.snapshots import (
    Array,
    BatchHanded,
    KeptStep,
    RecordedStep,
    ReferenceDigests,
)
from mothtrap.snapshot.tree import TreeMaker
from mothtrap.tracing.snapshots.taking import SnapshotsOfSteps, digest

ROUNDING: Final = 1e-5
"""Relative difference between a norm in a program (single precision) and on the host; chosen by
hand.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A step of a call; the last step if the call ran several.

    Attributes:
        held: state before the step; None if unknown, for the reason `why_no_state`.
        step, batch, graph, kept_losses: data of the step that its program has kept
            (`keeping.KeptCall`), which may be an earlier step of the call; None if it has kept
            none. `graph` is also set for a custom loop.
        count: number of steps that the call made.
        refused: the script itself did not apply it.
        why_no_gradients: why its gradients are unknown; empty if they are known.
    """

    site: str | None
    optimizer: str
    applied: Sequence[Applied]
    losses: Sequence[Losses]
    held: Held | HeldLoop | None = None
    why_no_state: str = ""
    step: int | None = None
    batch: Any = None
    graph: Any = None
    kept_losses: Sequence[Losses] = ()
    count: int = 1
    refused: bool = False
    why_no_gradients: str = ""

    def is_within(self, limit: float) -> bool:
        """Return whether the step is good, so that the program stored no state.

        Args:
            limit: largest gradient norm allowed for each optimizer.
        """
        found = [each.half_squares() for each in self.applied if each.squares is not None]
        losses = all(math.isfinite(loss.value) for loss in self.losses)
        return losses and all(
            squares is not None
            and math.sqrt(2 * squares.sum(dtype=np.float64)) < limit * (1 - ROUNDING)
            for squares in found
        )


class KerasSnapshotTaker(SnapshotsOfSteps):
    """Takes snapshots for the guard after each step, on the training thread.

    Args:
        job: job of the training.
        batches: batches of its train functions.
    """

    def __init__(self, job: Job, batches: Batches) -> None:
        super().__init__(job)
        self._batches = batches

    def unsound(self, made: Made, reason: str) -> None:
        """Take a snapshot of the first bad step."""
        self.onset(reason, functools.partial(self._draft, made))

    def sound(self, made: Made) -> None:
        """Take a snapshot of a good step if it is due or requested.

        A snapshot that is requested while the step runs is taken with the next one.
        """
        if made.held is not None or made.why_no_state:
            self.made(functools.partial(self._draft, made))

    def _draft(self, made: Made, order: SnapshotOrder) -> SnapshotDraft | str:
        held, batch, program = made.held, made.batch, made.graph
        if held is None:
            return made.why_no_state
        if why := self.why_too_large(held.size_bytes):
            return why
        if isinstance(held, HeldLoop):
            if held.turn.kind == "rest":
                return REST
            batch = on_host(held.turn.given)
        elif made.step is None:
            batch, program = self._batches.latest(), self._batches.program()
        if batch is None and not isinstance(held, HeldLoop):
            return f"batch not observed: {self._batches.why}"
        stateful = stateful_randomness(program) if program is not None else ()
        note = ""
        if stateful:
            note = (
                f"the step draws from {', '.join(stateful)}, whose random state cannot be read: a "
                "replay draws different numbers"
            )
        step = self._job.now.step if made.step is None else made.step
        return SnapshotDraft(
            order=order,
            step=step,
            state_step=step,
            note=note,
            steps=(_kept(step, batch, made),),
            truth=truth(made),
            state=held.copy(),
        )


def truth(made: Made) -> ReferenceDigests:
    """Return digests of the losses by call site, and of the gradients by variable."""
    losses: dict[str, str] = {}
    kept = made.kept_losses or made.losses
    for loss in kept:
        losses[loss.location or loss.series] = digest(np.float64(loss.value))
    gradients = {
        str(variable.path): digest(slot.read())
        for each in made.applied
        for variable, slot in each.pairs()
        if made.count == 1
    }
    values = tuple(loss.value for loss in kept)
    return ReferenceDigests(losses=losses, gradients=gradients, values=values)


def _kept(step: int, batch: object, made: Made) -> KeptStep:
    arrays: dict[str, Array] = {}

    def keep(value: np.ndarray) -> dict[str, str]:
        key = f"b{len(arrays)}"
        arrays[key] = array_of(value)
        return {"array": key}

    is_loop = isinstance(made.held, HeldLoop)
    maker = TreeMaker(in_snapshot if is_loop else lambda _: None, keep)
    tree = maker.tree(batch)
    recorded = RecordedStep(
        step=step,
        events=(BatchHanded(loader=0, site=made.site or "", value=tree),),
        optimizers=(made.optimizer,),
        losses=tuple(loss.value for loss in made.kept_losses or made.losses),
        missing=tuple(maker.opaque),
        rates={a.optimizer.name: (optimizers.learning_rate(a.optimizer),) for a in made.applied},
    )
    return KeptStep(recorded=recorded, arrays=arrays)


def tensors_of(batch: object, rows: Sequence[int] | None = None) -> object:
    """Convert a batch of arrays to tensors, optionally with selected rows."""

    def made(leaf: object) -> object:
        if leaf is None:
            return None
        array = np.asarray(leaf)
        if rows is not None and array.ndim and len(array) == rows_of(batch):
            array = array[list(rows)]
        return tf.convert_to_tensor(array)

    return tf.nest.map_structure(made, batch)


def rows_of(batch: object) -> int:
    """Return the length of the first axis of a batch."""
    for leaf in tf.nest.flatten(batch):
        if leaf is not None and np.ndim(leaf):
            return len(leaf)
    return 0
