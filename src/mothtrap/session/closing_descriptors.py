"""Let a script close all descriptors, except files that threads of mothtrap are using.

A script that becomes a daemon calls `os.closerange(3, 256)`. A thread of mothtrap may have a file
open at that time, such as a module that it imports. It would later close the file by its number,
which may then belong to a new file of the script.
"""

from __future__ import annotations

import functools
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mothtrap.store.own_descriptors import path_of

WAIT_S = 10.0
"""Maximum wait for pipes of mothtrap; the same limit as for git, the only program it runs."""

has_pipes = threading.Lock()
"""Lock held while a thread of mothtrap has pipes to another process."""


@functools.cache
def keep_ours_open(run: Path) -> None:
    """Make `os.closerange` keep read-only files and files of the run open.

    Sockets, pipes, and all other files are closed. Does nothing on Windows.
    """
    try:
        import fcntl
    except ImportError:
        return
    close_all, owner, folder = os.closerange, os.getpid(), str(run.resolve()) + os.sep

    def is_left_open(number: int) -> bool:
        kind = os.fstat(number).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return False
        is_read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        return is_read or path_of(number).startswith(folder)

    @functools.wraps(close_all)
    def closerange(fd_low: int, fd_high: int, /) -> None:
        if os.getpid() != owner:  # a forked child has no threads of mothtrap
            close_all(fd_low, fd_high)
        else:
            _close(fd_low, fd_high, is_left_open)

    os.closerange = closerange


def _close(low: int, high: int, is_left_open: Callable[[int], bool]) -> None:
    waited = has_pipes.acquire(timeout=WAIT_S)
    try:
        for number in [int(name) for name in os.listdir("/dev/fd")]:
            with suppress(OSError):  # already closed, which `closerange` also ignores
                if low <= number < high and not is_left_open(number):
                    os.close(number)
    finally:
        if waited:
            has_pipes.release()
