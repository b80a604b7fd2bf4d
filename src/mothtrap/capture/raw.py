"""Copies of whole tensors, taken on the training thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.capture.arena import Arenas, Bytes
from mothtrap.capture.selection import RAW
from mothtrap.core.records import RawBlock

ArrayT = TypeVar("ArrayT", contravariant=True)
_Row = tuple[int, str, tuple[int, ...], int, frozenset[str]]
"""Number, element type, shape, end in the piece, and purpose of a copy."""
KEEP = frozenset({RAW})
_GROWTH = 1.1
"""Room beyond what the last step took, so that a slightly larger one fits in one piece."""


class Copier(Protocol[ArrayT]):
    """The bytes of the arrays of one library: part of a module of `mothtrap.statistics`."""

    def describe(self, tensor: ArrayT) -> tuple[str, tuple[int, ...], int]:
        """Name of the element type, shape, and number of bytes."""

    def copy_bytes(self, tensor: ArrayT, out_N: npt.NDArray[np.uint8]) -> None:
        """Write the tensor in C order, little-endian."""


class RawCopies(Generic[ArrayT]):
    """Collects copies of tensors until they are taken, in pieces of bounded memory.

    Args:
        copier: knows the bytes of a tensor.
        arenas: where the copies lie.
        wait_s: how long to wait for memory when there is none.
    """

    def __init__(self, copier: Copier[ArrayT], arenas: Arenas, *, wait_s: float = 0.0) -> None:
        self._copier, self._arenas, self._wait_s = copier, arenas, wait_s
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
        """Copy a tensor; False when there is no memory for it.

        Args:
            tensor_id: its number.
            tensor: is read now, and not held.
            purpose: what the copy is for, see `RawBlock.purposes`.
            copier: knows this tensor, where that is not the usual one.
        """
        copier = copier or self._copier
        dtype, shape, size = copier.describe(tensor)
        piece = self._piece
        if piece is None or self._end + size > len(piece):
            piece = self._begin_block(size)
            if piece is None:
                return False
        begin, self._end = self._end, self._end + size
        copier.copy_bytes(tensor, piece[begin : self._end])
        self._rows.append((tensor_id, dtype, shape, self._end, purpose))
        return True

    def take(self) -> Sequence[RawBlock]:
        """Return what was copied since the last call."""
        self._close_block()
        blocks, self._blocks = self._blocks, []
        self._expected, self._taken = int(self._taken * _GROWTH), 0
        return blocks

    def _begin_block(self, size: int) -> Bytes | None:
        """Another piece, since the tensor does not fit in the one in use."""
        self._close_block()
        wanted = max(size, self._expected - self._taken)
        self._piece = self._arenas.take(wanted, timeout_s=self._wait_s)
        if self._piece is None and wanted > size:
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
    """The copies of a step: its own, and those of forwards that are not yet committed.

    Arguments as for `RawCopies`.
    """

    def __init__(self, copier: Copier[ArrayT], arenas: Arenas, *, wait_s: float = 0.0) -> None:
        self._own = RawCopies(copier, arenas, wait_s=wait_s)
        self._forward = RawCopies(copier, arenas, wait_s=wait_s)
        self._committed: list[RawBlock] = []
        self._dropped = 0

    def add(
        self,
        tensor_id: int,
        tensor: ArrayT,
        purpose: frozenset[str],
        copier: Copier[ArrayT],
        *,
        waits: bool,
    ) -> None:
        """Copy a tensor, and count it where there is no memory; see `RawCopies.add`.

        Args:
            waits: it belongs to a forward whose mode is not known yet.
        """
        target = self._forward if waits else self._own
        self._dropped += not target.add(tensor_id, tensor, purpose, copier)

    def begin_forward(self) -> None:
        """Forget what a forward that never returned has left behind."""
        self._forward.take()

    def take_forward(self) -> Sequence[RawBlock]:
        """Return the copies of the forward that returned."""
        return self._forward.take()

    def keep(self, blocks: Sequence[RawBlock]) -> None:
        """Make copies of a forward part of the step."""
        self._committed += blocks

    def take(self) -> Sequence[RawBlock]:
        """Return all copies of the step."""
        committed, self._committed = self._committed, []
        return [*committed, *self._own.take()]

    def take_dropped(self) -> int:
        """Return how many tensors found no memory since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped
