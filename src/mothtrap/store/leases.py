"""Leases: the right to evaluate a run, held by one monitor at a time.

A lease is an object `RUN/leases/<part>/<epoch>.json` with an owner and an end time. It is written
only if it is absent, so only one of two competing processes gets it. The holder renews it with the
next epoch; the highest epoch is valid. On another machine, a lease ends at its end time, so the
clocks of machines must agree within a few seconds.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import ObjectExistsError, ObjectNotFoundError
from mothtrap.store.objects import Store
from mothtrap.store.processes import is_alive, start_ticks
from mothtrap.store.run_objects import store_of

FOLDER = "leases"
LEASE_S = 15.0
"""Duration of a lease; chosen by hand: a monitor that was killed on another machine is replaced
after this time.
"""
RENEW_S = LEASE_S / 3
REFUSED_S = 3.0
"""Pause before another monitor's lease is checked again; chosen by hand."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch of a lease. `pid` and `ticks` identify the holder's process on its host."""

    owner: str
    until_s: float
    host: str
    pid: int
    ticks: int


class Lease:
    """The right of this process to evaluate one part of the rules on a run.

    Args:
        run: folder of the run; of a run in an object store, its mirror.
        part: part of the rules; monitors of different parts do not exclude each other.
        clock: returns the Unix time.
    """

    def __init__(self, run: Path, part: str, clock: Callable[[], float] = time.time) -> None:
        self._store: Store = store_of(run)
        self._folder = f"{FOLDER}/{part}"
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._epoch = 0
        self._until_s = self._refused_s = float("-inf")

    @property
    def is_held(self) -> bool:
        """Return whether this process still has the lease, as far as it knows."""
        return self._clock() < self._until_s

    def acquire(self) -> bool:
        """Take the lease, or renew it; return whether this process has it.

        Raises:
            StoreError: the store cannot be reached, or rejects the request.
        """
        now_s = self._clock()
        if self.is_held and now_s < self._until_s - LEASE_S + RENEW_S:
            return True
        if now_s - self._refused_s < REFUSED_S:
            return False
        epochs = self._epochs()
        latest = epochs[-1] if epochs else 0
        if latest and not (latest == self._epoch or self._is_over(latest)):
            self._until_s, self._refused_s = float("-inf"), now_s
            return False
        return self._take(latest + 1, epochs)

    def release(self) -> None:
        """Release the lease, so that another monitor can take it immediately.

        Raises:
            StoreError: the store cannot be reached, or rejects the request.
        """
        self._until_s = float("-inf")
        if self._epoch:
            self._store.delete(self._key(self._epoch))
            self._epoch = 0

    def _take(self, epoch: int, older: list[int]) -> bool:
        now_s = self._clock()
        entry = _Entry(
            owner=self._owner,
            until_s=now_s + LEASE_S,
            host=socket.gethostname(),
            pid=os.getpid(),
            ticks=start_ticks(os.getpid()),
        )
        self._until_s = float("-inf")
        try:
            self._store.put_if_absent(self._key(epoch), jsonable.encode(entry))
        except ObjectExistsError:
            read = self._read(epoch)  # the answer to an earlier attempt may have been lost
            if read is None or read.owner != self._owner:
                return False
        if self._epochs()[-1:] != [epoch]:  # a later holder has already removed this epoch
            self._store.delete(self._key(epoch))
            return False
        self._epoch, self._until_s = epoch, now_s + LEASE_S
        for old in older:
            self._store.delete(self._key(old))
        return True

    def _is_over(self, epoch: int) -> bool:
        entry = self._read(epoch)
        if entry is None or self._clock() >= entry.until_s:
            return True
        if entry.host != socket.gethostname():
            return False
        return not (is_alive(entry.pid) and start_ticks(entry.pid) == entry.ticks)

    def _read(self, epoch: int) -> _Entry | None:
        with suppress(ObjectNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return jsonable.decode(self._store.get(self._key(epoch)), _Entry)
        return None

    def _epochs(self) -> list[int]:
        names = [info.key.rpartition("/")[2] for info in self._store.list(self._folder)]
        numbers = [name.removesuffix(".json") for name in names]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _key(self, epoch: int) -> str:
        return f"{self._folder}/{epoch:012d}.json"
