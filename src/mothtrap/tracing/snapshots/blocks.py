"""Memory of released copies, reused for copies of the same size."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Blocks:
    """Pool of released memory.

    Args:
        limit_bytes: limit on the size of unused memory.
    """

    def __init__(self, limit_bytes: float) -> None:
        self._limit_bytes = limit_bytes
        self._idle: OrderedDict[int, list[Bytes]] = OrderedDict()
        self._bytes = 0

    def take(self, size: int) -> Bytes:
        """Return memory of a given size in bytes."""
        idle = self._idle.get(size)
        if not idle:
            return np.empty(size, np.uint8)
        self._bytes -= size
        return idle.pop()

    def give_back(self, block: Bytes) -> None:
        """Return memory that is no longer used; any thread may call this."""
        if block.nbytes > self._limit_bytes:
            return
        self._idle.setdefault(block.nbytes, []).append(block)
        self._idle.move_to_end(block.nbytes)
        self._bytes += block.nbytes
        while self._bytes > self._limit_bytes:
            size, blocks = next(iter(self._idle.items()))
            if blocks:
                blocks.pop()
                self._bytes -= size
            if not blocks:
                del self._idle[size]
