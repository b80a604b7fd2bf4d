"""Takes snapshots of steps under `fit` and `train_on_batch`: state before, batch, what it came to.

Each is taken when its step was made, from the state that was held before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from mothtrap.adapters.keras import optimizers
from mothtrap.adapters.keras.state import Held, array_of
from mothtrap.adapters.tensorflow.batches import Batches, stateful_randomness
from mothtrap.adapters.tensorflow.looks import Applied
from mothtrap.core.adapters import Losses
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder, SnapshotSink
from mothtrap.core.snapshots import (
    BASE,
    Array,
    BatchHanded,
    KeptStep,
    RecordedStep,
    ReferenceDigests,
)
from mothtrap.snapshot.retention import is_onset
from mothtrap.snapshot.spare_memory import spare_bytes
from mothtrap.snapshot.tree import TreeMaker
from mothtrap.statistics.digest import digest_bytes
from mothtrap.tracing.adapter_job import AdapterJob

MAX_ORDERS = 16
STILL_WRITING = "those before are still being written"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A step that one call has made.

    Attributes:
        why_no_state: why the state before it is not known, where it is not.
    """

    site: str | None
    optimizer: str
    applied: Sequence[Applied]
    losses: Sequence[Losses]
    why_no_state: str = ""


class KerasSnapshotTaker:
    """Called by the guard after each step, on the thread that trains.

    Args:
        job: of the training.
        batches: of its train functions.

    Attributes:
        active: whether any are taken in this job.
    """

    def __init__(self, job: AdapterJob, batches: Batches) -> None:
        config = job.config
        self.active = config.snapshots > 0 and config.ring_mb > 0 and config.capture != "off"
        self._job, self._batches = job, batches
        self._every, self._at = config.snapshot_every, frozenset(config.snapshot_at)
        self._limit_bytes = config.snapshot_mb * 2**20
        self._automatic = 2 * config.snapshots
        self._orders: deque[SnapshotOrder] = deque()
        self._sink: SnapshotSink | None = None
        self._waiting: list[SnapshotDraft] = []
        self._taken, self._taken_for = -1, ""

    def order(self, order: SnapshotOrder) -> bool:
        """Have one taken as soon as that can be done; may be called by any thread."""
        if not self.active or len(self._orders) >= MAX_ORDERS:
            return False
        self._orders.append(order)
        return True

    def connect(self, sink: SnapshotSink) -> None:
        """Hand snapshots on from here on; those taken before now."""
        self._sink = sink
        waiting, self._waiting = self._waiting, []
        for taken in waiting:
            sink.put(taken)

    def onset(self, made: Made, held: Held | None, reason: str) -> None:
        """Take the first step that is not sound."""
        if self.active and self._automatic > 0:
            self._automatic -= 1
            self._take(SnapshotOrder(reason=f"unsound step: {reason}"), made, held)

    def made(self, made: Made, held: Held | None) -> None:
        """Take a sound step, if that is due or was asked for."""
        if not self.active:
            return
        step = self._job.grouper.step
        if (self._every and step % self._every == 0) or step in self._at:
            self._take(SnapshotOrder(reason="step" if step in self._at else BASE), made, held)
        if self._orders:
            self._grant(self._orders.popleft(), step, made, held)

    def _grant(self, order: SnapshotOrder, step: int, made: Made, held: Held | None) -> None:
        if order.reason.startswith("finding"):
            if self._automatic <= 0 or is_onset(self._taken_for):
                return
            self._automatic -= 1
        if order.step is not None and order.step < step:
            note = f"{order.reason} is about step {order.step}, which is not in memory any more"
            order = SnapshotOrder(reason=f"{order.reason} ({note})", request=order.request)
        self._take(order, made, held)

    def _take(self, order: SnapshotOrder, made: Made, held: Held | None) -> None:
        step = self._job.grouper.step
        if self._taken == step and is_onset(self._taken_for):
            return
        why = self._obstacle(held, made)
        batch = self._batches.latest() if not why else None
        if not why and batch is None:
            why = f"batch not seen: {self._batches.why}"
        if why or held is None:
            if self._sink is not None:
                self._sink.refused(order, step, why)
            return
        self._taken, self._taken_for = step, order.reason
        program = self._batches.program()
        stateful = stateful_randomness(program) if program is not None else ()
        note = ""
        if stateful:
            note = (
                f"the step draws from {', '.join(stateful)}, whose random state cannot be read: "
                "a replay draws other numbers"
            )
        draft = SnapshotDraft(
            order=order,
            step=step,
            state_step=step,
            note=note,
            steps=(_kept(step, batch, made),),
            truth=truth(made),
            state=held.copy(),
        )
        if self._sink is not None:
            self._sink.put(draft)
        else:
            self._waiting.append(draft)

    def _obstacle(self, held: Held | None, made: Made) -> str:
        if held is None:
            return made.why_no_state
        if self._sink is not None and not self._sink.has_room():
            return STILL_WRITING
        if held.size_bytes > min(self._limit_bytes, spare_bytes()):
            return f"the variables are larger than snapshot_mb ({self._limit_bytes / 2**20:g} MB)"
        return ""


def truth(made: Made) -> ReferenceDigests:
    """Return digests of the losses by site, and of the gradients by variable."""
    losses: dict[str, str] = {}
    for loss in made.losses:
        losses[loss.location or loss.series] = digest(np.float64(loss.value))
    gradients = {
        str(variable.path): digest(slot.read())
        for each in made.applied
        for variable, slot in zip(each.variables, each.gradients or (), strict=False)
        if slot is not None
    }
    values = tuple(loss.value for loss in made.losses)
    return ReferenceDigests(losses=losses, gradients=gradients, values=values)


def digest(value: np.ndarray | np.generic) -> str:
    """Return the digest of an array, in hex."""
    array = np.ascontiguousarray(value)
    data = array.reshape(-1).view(np.uint8)
    return f"{digest_bytes(data, array.dtype.name, np.shape(value)):016x}"


def _kept(step: int, batch: object, made: Made) -> KeptStep:
    arrays: dict[str, Array] = {}

    def keep(value: np.ndarray) -> dict[str, str]:
        key = f"b{len(arrays)}"
        arrays[key] = array_of(value)
        return {"array": key}

    maker = TreeMaker(lambda _: None, keep)
    tree = maker.tree(batch)
    recorded = RecordedStep(
        step=step,
        events=(BatchHanded(loader=0, site=made.site or "", value=tree),),
        optimizers=(made.optimizer,),
        losses=tuple(loss.value for loss in made.losses),
        missing=tuple(maker.opaque),
        rates={a.optimizer.name: (optimizers.learning_rate(a.optimizer),) for a in made.applied},
    )
    return KeptStep(recorded=recorded, arrays=arrays)


def tensors_of(batch: object, rows: Sequence[int] | None = None) -> object:
    """Return a batch of arrays as tensors, some of its rows if asked."""

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
