"""Time limit of a check that runs in the process of the script."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLong(BaseException):
    """The time of a block is over. Not an `Exception`, so that the block does not catch it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt a block when its time is over.

    A block is not interrupted in a thread, or on a system without alarms.

    Raises:
        TooLong: The block did not end in time.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
