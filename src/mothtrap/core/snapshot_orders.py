"""A snapshot on its way from the training thread to the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mothtrap.core.snapshots import Array, KeptStep, ReferenceDigests, Tree


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotOrder:
    """Request for a snapshot.

    Attributes:
        reason: as in `core.snapshots.Snapshot`.
        step: requested step; None = the next step.
        request: id of the request to be answered, or ''.
    """

    reason: str
    step: int | None = None
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateCopy:
    """Copy of a state in memory.

    Attributes:
        make: creates, once, the tree that refers to the arrays, and reports data that could not be
            copied; may add small arrays. Not called on the training thread.
        arrays: arrays by key.
        missing: other data that was not copied, with the reason.
        give_back: function to call when the arrays are no longer needed.
    """

    make: Callable[[], tuple[Tree, tuple[str, ...]]]
    arrays: Mapping[str, Array]
    missing: tuple[str, ...] = ()
    give_back: Callable[[], None] = field(default=lambda: None)

    @property
    def size_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.data.nbytes for array in self.arrays.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotDraft:
    """Draft of a snapshot of a step; fields as in `core.snapshots.Snapshot`.

    Attributes:
        steps: recorded steps, oldest first; the last step is `step`.
        state: None: the state is in the snapshot of step `state_step`, which is on disk, or waits
            to be written before this one.
    """

    order: SnapshotOrder
    step: int
    state_step: int
    note: str
    steps: tuple[KeptStep, ...]
    truth: ReferenceDigests | None
    state: StateCopy | None


class SnapshotSink(Protocol):
    """Receives snapshots and writes them in the background."""

    @property
    def base_steps(self) -> tuple[int, ...]:
        """Steps of the stored base snapshots, ascending."""

    def has_room(self, spare: int = 0) -> bool:
        """Return whether the queue has room for one more snapshot of this size."""

    def put(self, taken: SnapshotDraft) -> None:
        """Queue a snapshot, and return immediately."""

    def refused(self, order: SnapshotOrder, step: int, why: str) -> None:
        """Record that a requested snapshot could not be taken."""
