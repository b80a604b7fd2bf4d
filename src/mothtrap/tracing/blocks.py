"""Memory of copies that are gone, for others of the same size."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Blocks:
    """Memory of copies that are gone, to be used again by others of the same size.

    Args:
        limit_bytes: that wait at most.
    """

    def __init__(self, limit_bytes: float) -> None:
        self._limit_bytes = limit_bytes
        self._idle: OrderedDict[int, list[Bytes]] = OrderedDict()
        self._bytes = 0

    def take(self, size: int) -> Bytes:
        """Memory of a size in bytes."""
        idle = self._idle.get(size)
        if not idle:
            return np.empty(size, np.uint8)
        self._bytes -= size
        return idle.pop()

    def give_back(self, block: Bytes) -> None:
        """Take memory that is not used any more; called from any thread."""
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
