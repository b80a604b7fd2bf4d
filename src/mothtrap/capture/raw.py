"""Copies of whole tensors, made on the training thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.capture.arena import MIN_BYTES, Arenas, Bytes
from mothtrap.capture.footprint import held_bytes
from mothtrap.capture.selection import RAW
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import RawBlock

ArrayT = TypeVar("ArrayT", contravariant=True)
_Row = tuple[int, str, tuple[int, ...], int, frozenset[str]]
"""Tensor id, element type, shape, end in the block, and purpose of a copy."""
KEEP = frozenset({RAW})
Wanted = tuple[int, ArrayT, frozenset[str]]
"""Tensor id, tensor, and purpose of its copy."""
_GROWTH = 1.1
"""Extra room relative to the last step, so that a slightly larger step fits in one block."""


class Copier(Protocol[ArrayT]):
    """Copies arrays of one library; part of a module of `mothtrap.statistics`."""

    def describe(self, tensor: ArrayT) -> tuple[str, tuple[int, ...], int]:
        """Return the name of the element type, the shape, and the number of bytes."""

    def copy_bytes(self, tensor: ArrayT, out_N: npt.NDArray[np.uint8]) -> None:
        """Write the tensor in C order, little-endian."""

    def gather_bytes(
        self, tensors: Sequence[ArrayT], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
    ) -> None:
        """Write several tensors in C order, each from an offset in the same memory."""


@dataclass(slots=True)
class _Placed(Generic[ArrayT]):
    """Tensors with a place in the current block that are not copied yet."""

    end: int
    tensors: list[ArrayT] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)


class RawCopies(Generic[ArrayT]):
    """Collects copies of tensors in blocks of bounded memory until they are taken.

    Attributes:
        is_full: whether the last tensor without memory had no room next to these copies, so that
            waiting would not have helped.

    Args:
        copier: determines the size of a tensor.
        arenas: memory for the copies.
        wait_s: time to wait for memory if there is none; after a timeout, it does not wait again
            until memory has been free.
        beside: bytes of the arenas that other objects use while these copies are kept.
    """

    def __init__(
        self,
        copier: Copier[ArrayT],
        arenas: Arenas,
        *,
        wait_s: float = 0.0,
        beside: Callable[[], int] = lambda: 0,
    ) -> None:
        self._copier, self._arenas, self._beside = copier, arenas, beside
        self._wait_s = self._left_s = wait_s
        self.is_full = False
        self._blocks: list[RawBlock] = []
        self._piece: Bytes | None = None
        self._rows: list[_Row] = []
        self._expected = self._taken = self._end = 0

    def add(
        self,
        tensor_id: int,
        tensor: ArrayT,
        purpose: frozenset[str] = KEEP,
        copier: Copier[ArrayT] | None = None,
    ) -> bool:
        """Copy a tensor; return False if there is no memory for it. See `add_all`."""
        return not self.add_all([(tensor_id, tensor, purpose)], copier)

    def add_all(
        self, wanted: Iterable[Wanted[ArrayT]], copier: Copier[ArrayT] | None = None
    ) -> list[tuple[ArrayT, bool]]:
        """Copy tensors; tensors in the same memory block are copied together.

        Args:
            wanted: id, tensor, and purpose of the copy (see `RawBlock.purposes`); a tensor is read
                immediately, and not kept.
            copier: module for these tensors, if not the usual one.

        Returns:
            The tensors for which there is no memory, each with the value of `is_full`.
        """
        copier = copier or self._copier
        refused = []
        here = _Placed[ArrayT](self._end)
        for tensor_id, tensor, purpose in wanted:
            dtype, shape, size = copier.describe(tensor)
            if self._piece is None or here.end + size > len(self._piece):
                self._copy(here, copier)
                piece = self._begin_block(size)
                here = _Placed(0)
                if piece is None:
                    refused.append((tensor, self.is_full))
                    continue
            here.tensors.append(tensor)
            here.begins.append(here.end)
            here.end += size
            here.rows.append((tensor_id, dtype, shape, here.end, purpose))
        self._copy(here, copier)
        return refused

    def take(self) -> Sequence[RawBlock]:
        """Return the copies made since the last call."""
        if self._piece is not None:
            self._close_block()
        blocks, self._blocks = self._blocks, []
        self._expected, self._taken = int(self._taken * _GROWTH), 0
        return blocks

    @property
    def held_bytes(self) -> int:
        """Return the memory of the copies, including unused ends of blocks."""
        return held_bytes(self._blocks) + (0 if self._piece is None else len(self._piece))

    @property
    def copied_bytes(self) -> int:
        """Return the size of the copies in bytes."""
        return self._taken + self._end

    def _copy(self, placed: _Placed[ArrayT], copier: Copier[ArrayT]) -> None:
        """Copy tensors into the current block: all of them, or none if this fails."""
        if self._piece is None or not placed.tensors:
            return
        try:
            if len(placed.tensors) == 1:
                copier.copy_bytes(placed.tensors[0], self._piece[placed.begins[0] : placed.end])
            else:
                copier.gather_bytes(placed.tensors, placed.begins, self._piece)
        except BaseException:
            self._close_block()  # a device may still write to their destination
            raise
        self._rows += placed.rows
        self._end = placed.end

    def _begin_block(self, size: int) -> Bytes | None:
        """Start another block, because the tensor does not fit in the current one."""
        self._close_block()
        held = self.held_bytes
        room = self._arenas.limit_bytes - held - self._beside()
        self.is_full = max(size, MIN_BYTES) > room
        if self.is_full:
            return None
        # As large as all current blocks together, because small blocks waste more memory at their
        # ends.
        wanted = min(max(size, self._expected - self._taken, held), room)
        self._piece = self._arenas.take(wanted, timeout_s=self._left_s)
        if self._piece is not None:
            self._left_s = self._wait_s
        else:
            self._left_s = 0.0
            self._piece = self._arenas.take(size)
        return self._piece

    def _close_block(self) -> None:
        if self._piece is not None and self._rows:
            ids, dtypes, shapes, ends, purposes = zip(*self._rows, strict=True)
            self._blocks.append(
                RawBlock(
                    tensor_R=np.array(ids, np.uint32),
                    dtypes=dtypes,
                    shapes=shapes,
                    offset_R=np.array((0, *ends), np.int64),
                    bytes_N=self._piece[: self._end],
                    purposes=() if set(purposes) == {KEEP} else purposes,
                )
            )
            self._taken += self._end
        self._piece, self._end = None, 0
        self._rows = []


class StepCopies(Generic[ArrayT]):
    """The copies of a step, and of forward passes that are not committed yet.

    Args:
        copier: determines the size of a tensor.
        arenas: memory for the copies.
        wait_s: see `RawCopies`.

    Attributes:
        are_held: copies are held separately until their step is known.
    """

    def __init__(self, copier: Copier[ArrayT], arenas: Arenas, *, wait_s: float = 0.0) -> None:
        self._arenas = arenas
        self._own = RawCopies(copier, arenas, wait_s=wait_s, beside=self._bytes_besides_own)
        self._forward = RawCopies(copier, arenas, wait_s=wait_s, beside=self._bytes_besides_forward)
        self._held = RawCopies(copier, arenas, wait_s=wait_s, beside=self._bytes_besides_held)
        self.are_held = False
        self._committed: list[RawBlock] = []
        self._late = self._crowded_out = 0
        self._lost_bytes = self._lost_of_forward = self._needed_bytes = 0

    def add_all(
        self, wanted: Iterable[Wanted[ArrayT]], copier: Copier[ArrayT], *, waits: bool
    ) -> None:
        """Copy tensors, and count those without memory; see `RawCopies.add_all`.

        Args:
            wanted: the tensors, each with the purpose of its copy.
            copier: copies arrays of their framework.
            waits: they belong to a forward pass whose mode is not known yet.
        """
        target = self._forward if waits else self._held if self.are_held else self._own
        for tensor, is_full in target.add_all(wanted, copier):
            if is_full:
                self._crowded_out += 1
                self._report_needed(copier.describe(tensor)[2], of_forward=waits)
            else:
                self._late += 1

    def begin_forward(self) -> None:
        """Discard the copies of a forward pass that never returned."""
        self._forward.take()
        self._lost_of_forward = 0

    def take_forward(self) -> Sequence[RawBlock]:
        """Return the copies of the forward pass that returned."""
        return self._forward.take()

    def keep(self, blocks: Sequence[RawBlock]) -> None:
        """Make copies of a forward pass part of the step."""
        self._committed += blocks
        self._lost_bytes += self._lost_of_forward
        self._lost_of_forward = 0

    def take(self) -> Sequence[RawBlock]:
        """Return all copies of the step."""
        committed, self._committed = self._committed, []
        self._lost_bytes = self._needed_bytes = 0
        return [*committed, *self._own.take()]

    def take_held(self) -> Sequence[RawBlock]:
        """Return the copies that were held back."""
        return self._held.take()

    def take_dropped(self, step: int) -> list[Dropped]:
        """Return the number of tensors without memory since the last call, and why."""
        needed_mb, limit_mb = self._needed_bytes / 2**20, self._arenas.limit_bytes / 2**20
        reasons = {
            "their memory (queue_mb) was still full of data waiting to be written": self._late,
            f"the copies of one step take {needed_mb:.3g} MB, and do not all fit into queue_mb = "
            f"{limit_mb:g}: raise queue_mb": self._crowded_out,
        }
        self._late = self._crowded_out = 0
        return [
            Dropped(step=step, what="tensors", count=count, reason=reason)
            for reason, count in reasons.items()
            if count
        ]

    def _bytes_besides_own(self) -> int:
        return held_bytes(self._committed) + self._forward.held_bytes + self._held.held_bytes

    def _bytes_besides_forward(self) -> int:
        return held_bytes(self._committed) + self._own.held_bytes + self._held.held_bytes

    def _bytes_besides_held(self) -> int:
        return held_bytes(self._committed) + self._own.held_bytes + self._forward.held_bytes

    def _report_needed(self, size: int, *, of_forward: bool) -> None:
        """Record the size that the step would need, including a tensor that did not fit."""
        if of_forward:
            self._lost_of_forward += size
        else:
            self._lost_bytes += size
        lost = self._lost_bytes + self._lost_of_forward
        copied = sum(len(block.bytes_N) for block in self._committed)
        copied += self._own.copied_bytes + self._forward.copied_bytes
        self._needed_bytes = max(self._needed_bytes, copied + lost)
