"""In which order the workers of a job end."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress

from mothtrap.core.facts.workers import WorkerStarted


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
            try:
                self._watching().register(handle, select.EPOLLIN)
            except BaseException:
                os.close(handle)
                raise
            self._rank_of[handle] = started.rank

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
        thread, self._thread = self._thread, None
        if thread is not None and self._poll is not None:
            os.write(self._waker, b".")
            thread.join()
            self._let_all_go()
            self._poll.close()
            os.close(self._wake)
            os.close(self._waker)

    def _watching(self) -> select.epoll:
        """What is waited at; raises OSError where none can be had."""
        if self._poll is None:
            poll = select.epoll()
            wake, waker = os.pipe()
            name = "mothtrap deaths"
            thread = threading.Thread(target=self._watch, args=(poll, wake), name=name, daemon=True)
            try:
                poll.register(wake, select.EPOLLIN)
                thread.start()
            except (OSError, RuntimeError) as err:  # no more threads
                os.close(wake)
                os.close(waker)
                raise OSError(str(err)) from err
            self._poll, self._thread, self._wake, self._waker = poll, thread, wake, waker
        return self._poll

    def _watch(self, poll: select.epoll, wake: int) -> None:
        ended = False
        while not ended:
            poll.poll()
            with self._lock:
                # Asked again: a number that was free meanwhile may be that of another worker.
                found = [handle for handle, _ in poll.poll(0)]
                place = len(self._order)  # the same for all that are found dead together
                for handle in found:
                    if handle in self._rank_of:
                        self._order.setdefault(self._rank_of[handle], place)
                        self._let_go(poll, handle)
            ended = wake in found

    def _let_all_go(self) -> None:
        for handle in list(self._rank_of):
            if self._poll is not None:
                self._let_go(self._poll, handle)

    def _let_go(self, poll: select.epoll, handle: int) -> None:
        poll.unregister(handle)
        del self._rank_of[handle]
        os.close(handle)
