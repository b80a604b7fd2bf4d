"""A queue to the writer process, and to a thread once that process has ended."""

from __future__ import annotations

from collections.abc import Callable

from mothtrap.capture.reductions import Queue
from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.records import StepRecord


class Succession:
    """Passes records to a process while it lives, then to a thread.

    Data waiting in the memory of a process that ended is passed on again.

    Args:
        side: queue to the process.
        here: creates the queue to the thread.
    """

    def __init__(self, side: SideChannel, here: Callable[[], Queue]) -> None:
        self._side, self._make_here = side, here
        self._here: Queue | None = None

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Pass on a record."""
        if self._here is None:
            self._side.put(record, urgent=urgent)
            if not self._side.lost:
                return
            self._here = self._succeed()
        self._here.put(record, urgent=urgent)

    def close(self, timeout_s: float = 30.0) -> bool:
        """Write everything that waits; return False on timeout."""
        if self._here is None:
            closed = self._side.close(timeout_s)
            if not self._side.lost:
                return closed
            self._here = self._succeed()
        return self._here.close(timeout_s)

    def _succeed(self) -> Queue:
        here = self._make_here()
        for record in self._side.take_back():
            here.put(record)
        return here
