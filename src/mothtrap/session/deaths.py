"""In which order the workers of a job end."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress

from mothtrap.core.observations import WorkerStarted


class Deaths:
    """Waits, in a thread of its own, for processes of this host to end.

    A launcher kills the other workers within a tenth of a second: who looks at all of them
    now and then would find them dead together. It takes Linux to know.
    """

    def __init__(self) -> None:
        self._poll: select.epoll | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._rank_of: dict[int, int] = {}
        self._order: dict[int, int] = {}

    def expect(self, started: WorkerStarted) -> None:
        """Watch for the end of a worker."""
        if started.host != socket.gethostname() or not hasattr(os, "pidfd_open"):
            return
        with suppress(OSError), self._lock:  # it has ended already, or the kernel is too old
            handle = os.pidfd_open(started.pid)
            self._rank_of[handle] = started.rank
            self._watching().register(handle, select.EPOLLIN)

    def order(self, rank: int) -> int:
        """The place of a worker among the dead; one whose end nobody saw comes last."""
        with self._lock:
            return self._order.get(rank, len(self._order))

    def forget(self) -> None:
        """Begin again with other workers."""
        with self._lock:
            self._let_all_go()
            self._order.clear()

    def close(self) -> None:
        """Watch nobody any more; the order seen stays."""
        if self._thread is None:
            return
        os.write(self._waker, b".")
        self._thread.join()
        self._let_all_go()
        self._watching().close()
        os.close(self._wake)
        os.close(self._waker)

    def _watching(self) -> select.epoll:
        if self._poll is None:
            self._poll = select.epoll()
            self._wake, self._waker = os.pipe()
            self._poll.register(self._wake, select.EPOLLIN)
            self._thread = threading.Thread(target=self._watch, name="mothtrap deaths", daemon=True)
            self._thread.start()
        return self._poll

    def _watch(self) -> None:
        poll = self._watching()
        while True:
            found = [handle for handle, _ in poll.poll()]
            with self._lock:
                place = len(self._order)  # the same for all that are found dead together
                for handle in found:
                    if handle in self._rank_of:
                        self._order.setdefault(self._rank_of[handle], place)
                        self._let_go(handle)
            if self._wake in found:
                return

    def _let_all_go(self) -> None:
        for handle in list(self._rank_of):
            self._let_go(handle)

    def _let_go(self, handle: int) -> None:
        self._watching().unregister(handle)
        del self._rank_of[handle]
        os.close(handle)
