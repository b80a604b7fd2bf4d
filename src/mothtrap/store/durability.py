"""Durability of written bytes.

`crash`: an append has reached the operating system when it returns, so it survives the end of any
process. `power`: it is also synced to the disk, within `SYNC_EVERY_S` after the append, and when a
segment is sealed. The name of a new file is synced with its first bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

Durability = Literal["crash", "power"]
SYNC_EVERY_S = 1.0
"""Interval between syncs; chosen by hand: a sync takes 1 to 30 ms on common disks, so at most 3 %
of the time.
"""

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Errors of network or user-space file systems that do not support syncing."""


class Syncable(Protocol):
    """An object whose data may not be on the disk yet."""

    def sync(self) -> None:
        """Sync all written data to disk, unless it is already synced."""


class Syncer:
    """Syncs logs at intervals.

    Args:
        logs: logs in the order in which they are synced: a log that refers to another log comes
            later.
        durability: with `crash`, files are not synced.
        clock: returns seconds.
    """

    def __init__(
        self,
        logs: Sequence[Syncable],
        durability: Durability,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs if durability == "power" else ()
        self._clock = clock
        self._synced_s = -SYNC_EVERY_S

    def sync_if_due(self) -> None:
        """Sync, at most once in `SYNC_EVERY_S`; call it after appends and while idle.

        Raises:
            OSError: the disk has lost something.
        """
        if self._logs and self._clock() - self._synced_s >= SYNC_EVERY_S:
            for log in self._logs:
                log.sync()
            self._synced_s = self._clock()


def sync_file(file: int) -> None:
    """Sync the bytes of an open file to disk, if the file system supports this."""
    with _if_possible():
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves the data in the disk's cache
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(file)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, if the file system supports this."""
    file = os.open(folder, os.O_RDONLY)
    try:
        with _if_possible():
            os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _if_possible() -> Iterator[None]:
    try:
        yield
    except OSError as err:
        if err.errno not in _CANNOT:
            raise
