"""Runs that may be removed, and reasons to keep the others."""

from __future__ import annotations

import platform
import socket
import time
from pathlib import Path

from mothtrap.core.errors import ControlError, MothtrapError
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.reader.run import open_run
from mothtrap.store.retention import StoredRun, measure, remove

UNSEEN_S = 86400.0
"""Seconds after its last write for which an unfinished run of another machine counts as running,
because its process cannot be checked from here; chosen by hand."""


def stored(path: Path) -> StoredRun:
    """Return the run, with the reason why it must not be removed, if any."""
    measured = measure(path)
    try:
        run = open_run(path)
        state, host = run.state, run.info.host if run.info else ""
    except (MothtrapError, OSError) as err:
        kept = f"it cannot be opened ({err})"
    else:
        started = run.observations(WorkerStarted)
        alive = any(_lives(worker, measured.touched_s) for worker in started)
        kept = "it is running" if state == "running" or (state == "crashed" and alive) else ""
        away = host not in _own_names() and state != "finished"
        if away and time.time() - measured.touched_s < UNSEEN_S:
            kept = f"it may be running on {host or 'an unknown machine'}"
    if path.is_symlink():
        kept = "it is a symbolic link; remove it yourself"
    return StoredRun(
        path=path, size_bytes=measured.size_bytes, touched_s=measured.touched_s, kept=kept
    )


def remove_stored(path: Path) -> None:
    """Remove a run and all its files.

    Raises:
        ControlError: the run must stay, for example because its job is running.
        OSError: the files cannot be removed.
    """
    if kept := stored(path).kept:
        raise ControlError(f"{path.name} is not removed: {kept}")
    remove(path)


def _lives(worker: WorkerStarted, touched_s: float) -> bool:
    """Return whether a worker is still running after its launcher has ended.

    This is the case if a process with its pid began before the last write.
    """
    import psutil

    try:
        began_s: float = psutil.Process(worker.pid).create_time()
    except psutil.Error:
        return False
    return worker.host in _own_names() and began_s <= touched_s


def _own_names() -> tuple[str, str]:
    return socket.gethostname(), platform.node()
