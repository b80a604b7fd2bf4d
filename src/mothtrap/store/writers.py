"""Processes other than the worker that write to a worker's folder.

RUN/<attempt>/w<rank>/writer.json   exists while a writer process is active
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.store.layout import worker_folder, workers
from mothtrap.store.plain_files import read_plain
from mothtrap.store.processes import is_alive

_NAME = "writer.json"
MAX_BYTES = 1 << 16
"""Maximum size of `writer.json` that is read; chosen by hand."""
_LOOK_EVERY_S = 0.02


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """A process that writes."""

    pid: int
    host: str


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """Mark a worker's folder as written by this process; raises OSError."""
    path = folder / _NAME
    path.write_bytes(jsonable.encode(Writer(pid=os.getpid(), host=socket.gethostname())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def at_work(attempt: Path) -> list[int]:
    """Return the ranks whose records are still being written by a process on this machine."""
    return [rank for rank in workers(attempt) if _lives(worker_folder(attempt, rank) / _NAME)]


def wait_for_writers(attempt: Path, timeout_s: float) -> bool:
    """Wait until no process writes to an attempt anymore; return False on timeout."""
    deadline_s = time.monotonic() + timeout_s
    while at_work(attempt):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _lives(path: Path) -> bool:
    try:
        writer = jsonable.decode(read_plain(path, MAX_BYTES), Writer)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return False
    return writer.host == socket.gethostname() and is_alive(writer.pid)
