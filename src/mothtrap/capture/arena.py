"""Memory that is filled on the training thread and reused once its content is written."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

MIN_BYTES = 1 << 20
"""Smallest block: below this size, searching for a block costs more than the memory."""
WAIT_S = 0.005


class Arenas:
    """A bounded set of memory blocks; a block is in use while an object refers to it.

    Allocating memory costs a page fault for every 4 KiB, several times the cost of the copy into
    it. So a block is reused as soon as nothing refers to it.

    Args:
        limit_bytes: limit on the total size of all blocks.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._pieces: list[Bytes] = []
        self._memory: Callable[[int], Bytes] = _plain
        self._lock = threading.Lock()

    @property
    def bytes_held(self) -> int:
        """Total memory of all blocks in bytes, used or not."""
        return sum(piece.nbytes for piece in self._pieces)

    def allocate_with(self, memory: Callable[[int], Bytes]) -> None:
        """Allocate blocks from other memory from now on, such as memory that a device can write to.

        Args:
            memory: allocates this many bytes. Blocks of the old kind are not reused.
        """
        if memory != self._memory:
            self._memory = memory
            with self._lock:
                self._pieces = [p for p in self._pieces if sys.getrefcount(p) != _IDLE]

    def take(self, size: int, *, timeout_s: float = 0.0) -> Bytes | None:
        """Return memory of at least `size` bytes, or None if the limit does not allow it.

        Args:
            size: requested number of bytes.
            timeout_s: maximum time to wait for memory that is in use.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                found = self._find(max(size, MIN_BYTES))
            if found is not None or time.monotonic() >= deadline_s:
                return found
            time.sleep(WAIT_S)

    def _find(self, size: int) -> Bytes | None:
        idle = [p for p in self._pieces if sys.getrefcount(p) == _IDLE]
        fitting = [piece for piece in idle if size <= piece.nbytes <= 4 * size]
        if fitting:
            return min(fitting, key=len)
        for piece in idle:
            if self.bytes_held + size <= self.limit_bytes:
                break
            self._pieces = [other for other in self._pieces if other is not piece]
        if self.bytes_held + size > self.limit_bytes:
            return None
        self._pieces.append(self._memory(size))
        return self._pieces[-1]


def _plain(size: int) -> Bytes:
    return np.empty(size, np.uint8)


# A slice of an array keeps the array alive. This many references come from the list that contains
# the array, and from the counting itself.
_IDLE = [sys.getrefcount(p) for p in [np.empty(1, np.uint8)]][0]  # noqa: RUF015
