"""States of workers that do not step: `RUN/<attempt>/w<rank>/stalled.json`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.store.plain_files import read_plain
from mothtrap.store.replacing import replace

FILE = "stalled.json"
SIGN = "alive"
"""File whose modification time is the last sign of life of a worker's process."""
MAX_BYTES = 1 << 16
"""Maximum size of a state that is read; chosen by hand."""


def write_stall(worker: Path, state: WorkerStalled) -> None:
    """Write the state of a worker, replacing the earlier state.

    Args:
        worker: folder of the worker.
        state: state to write.

    Raises:
        OSError: the folder cannot be written.
    """
    replace(worker / FILE, jsonable.encode(state))


def give_sign(worker: Path) -> None:
    """Record that the process of a worker is running; raises OSError."""
    (worker / SIGN).touch()


def sign_s(worker: Path) -> float:
    """Return the Unix time of the last sign of life of a worker's process, or 0."""
    try:
        return (worker / SIGN).stat().st_mtime
    except OSError:
        return 0.0


class StallReader:
    """Reads the state of one worker when it changes.

    Args:
        worker: folder of the worker.
    """

    def __init__(self, worker: Path) -> None:
        self._path = worker / FILE
        self._last = b""

    def poll(self) -> WorkerStalled | None:
        """Return the state if it has changed; otherwise None."""
        try:
            data = read_plain(self._path, MAX_BYTES)
        except OSError:
            return None
        if data == self._last:
            return None
        self._last = data
        try:
            return jsonable.decode(data, WorkerStalled)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
