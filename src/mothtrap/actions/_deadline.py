"""Time limit for a whole exchange over a socket; socket timeouts restart with each byte."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress


class Deadline:
    """Closes a connection when its time is over; the reader or writer then gets an error.

    Use as a context around the exchange. It acts on the connection itself, so it works
    for every object (TLS, a buffered file) that reads from it.

    Args:
        timeout_s: limit for the whole exchange.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._until_s = time.monotonic() + timeout_s
        self._twin: socket.socket | None = None
        self._timer: threading.Timer | None = None

    @property
    def left_s(self) -> float:
        """Return the seconds that are left.

        Raises:
            TimeoutError: The time is over.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no answer within {self._timeout_s:g} s")
        return left_s

    def connect(self, address: tuple[str, int]) -> socket.socket:
        """Connect to the first address of a host that responds; raises OSError."""
        error: OSError | None = None
        for family, kind, protocol, _, where in socket.getaddrinfo(*address, 0, socket.SOCK_STREAM):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(self.left_s)
                made.connect(where)
            except OSError as err:
                made.close()
                error = err
                continue
            self._watch(made)
            return made
        raise error or OSError(f"{address[0]} has no address")

    def _watch(self, made: socket.socket) -> None:
        self._forget()  # a redirect connects again
        self._twin = made.dup()
        self._timer = threading.Timer(self.left_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        if self._twin is not None:
            with suppress(OSError):
                self._twin.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._twin is not None:
            self._twin.close()
