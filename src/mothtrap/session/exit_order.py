"""Order in which the workers of a job end."""

from __future__ import annotations

import math
import os
import select
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress

from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.store.processes import start_ticks


class ExitOrder:
    """Waits, on its own thread, for processes of this host to end.

    A launcher kills the other workers within a tenth of a second, so occasional checks of all
    workers would find them dead together. Works only on Linux.

    A worker that ended before it could be watched died before all workers that are being watched at
    that time. Relative to workers whose end was observed earlier, its order is unknown.
    """

    def __init__(self) -> None:
        self._poll: select.epoll | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._rank_of: dict[int, int] = {}
        self._order: dict[int, tuple[int, int]] = {}

    def expect(self, started: WorkerStarted) -> None:
        """Wait for the end of a worker."""
        if started.host != socket.gethostname() or not hasattr(os, "pidfd_open"):
            return
        with suppress(OSError), self._lock:  # the kernel is too old, or out of resources
            try:
                handle = os.pidfd_open(started.pid)
            except ProcessLookupError:
                self._is_gone(started.rank)
                return
            try:
                # The pid may belong to another process by now, or to a process that was not reaped
                # yet.
                if started.pid_ticks not in (0, start_ticks(started.pid)) or _has_ended(handle):
                    self._is_gone(started.rank)
                    os.close(handle)
                    return
                self._watching().register(handle, select.EPOLLIN)
            except BaseException:
                os.close(handle)
                raise
            self._rank_of[handle] = started.rank

    def _is_gone(self, rank: int) -> None:
        if self._poll is not None:
            self._note_ends(self._poll)  # work that the thread has not started yet
        if rank not in self._order:
            self._order[rank] = 0, self._next_place()

    def _next_place(self) -> int:
        return max((latest for _, latest in self._order.values()), default=-1) + 1

    def place(self, rank: int) -> tuple[int, int | float]:
        """Return the first and last possible position of a worker in the order of death."""
        with self._lock:
            return self._order.get(rank, (0, math.inf))

    def first_of(self, ranks: Iterable[int]) -> int | None:
        """Return the worker that is known to have died before all others, if any."""
        places = {rank: self.place(rank) for rank in ranks}
        for rank, (_, latest) in places.items():
            if all(latest < first for other, (first, _) in places.items() if other != rank):
                return rank
        return None

    def forget(self) -> None:
        """Start over with other workers."""
        with self._lock:
            self._release_all()
            self._order.clear()

    def close(self) -> None:
        """Stop watching, but keep the observed order."""
        thread, self._thread = self._thread, None
        if thread is not None and self._poll is not None:
            os.write(self._waker, b".")
            thread.join()
            self._release_all()
            self._poll.close()
            os.close(self._wake)
            os.close(self._waker)

    def _watching(self) -> select.epoll:
        """Return the poll object of the processes; raises OSError if polling is unavailable."""
        if self._poll is None:
            poll = select.epoll()
            wake, waker = os.pipe()
            name = "mothtrap exit order"
            thread = threading.Thread(target=self._watch, args=(poll, wake), name=name, daemon=True)
            try:
                poll.register(wake, select.EPOLLIN)
                thread.start()
            except (OSError, RuntimeError) as err:  # no more threads can be started
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
                # Checked again, because a freed number may now belong to another worker.
                found = self._note_ends(poll)
            ended = wake in found

    def _note_ends(self, poll: select.epoll) -> list[int]:
        found = [handle for handle, _ in poll.poll(0)]
        place = self._next_place()  # shared by all that are found dead at the same time
        for handle in found:
            if handle in self._rank_of:
                self._order.setdefault(self._rank_of[handle], (place, place))
                self._release(poll, handle)
        return found

    def _release_all(self) -> None:
        for handle in list(self._rank_of):
            if self._poll is not None:
                self._release(self._poll, handle)

    def _release(self, poll: select.epoll, handle: int) -> None:
        poll.unregister(handle)
        del self._rank_of[handle]
        os.close(handle)


def _has_ended(handle: int) -> bool:
    """Return whether the process of a handle is dead, reaped or not."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))
