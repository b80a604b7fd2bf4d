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
        step: the one that is meant; None: the next one.
        request: id of the request to be answered, or ''.
    """

    reason: str
    step: int | None = None
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateCopy:
    """A state in memory.

    Attributes:
        make: makes, once, the tree that names the arrays, and says what could not be kept;
            may add small arrays. Not called on the thread that trains.
        arrays: by key.
        missing: what else of it was not kept, and why.
        give_back: to be called when the arrays are not needed any more.
    """

    make: Callable[[], tuple[Tree, tuple[str, ...]]]
    arrays: Mapping[str, Array]
    missing: tuple[str, ...] = ()
    give_back: Callable[[], None] = field(default=lambda: None)

    @property
    def size_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.data.nbytes for array in self.arrays.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotDraft:
    """Draft of a snapshot of a step; fields as in `core.snapshots.Snapshot`.

    Attributes:
        steps: recorded ones, oldest first; the last one is `step`.
        state: None: that of the snapshot of step `state_step`, which lies on the disk, or will
            when this one's turn comes.
    """

    order: SnapshotOrder
    step: int
    state_step: int
    note: str
    steps: tuple[KeptStep, ...]
    truth: ReferenceDigests | None
    state: StateCopy | None


class SnapshotSink(Protocol):
    """Takes snapshots in and writes them, beside the training."""

    @property
    def base_steps(self) -> tuple[int, ...]:
        """The steps of the bases that lie on the disk, ascending."""

    def has_room(self, spare: int = 0) -> bool:
        """Return whether another one can wait for the disk, and so many more."""

    def put(self, taken: SnapshotDraft) -> None:
        """Take one in; returns at once."""

    def refused(self, order: SnapshotOrder, step: int, why: str) -> None:
        """Something that was wished for could not be taken."""
