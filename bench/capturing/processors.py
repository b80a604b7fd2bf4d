"""Processor time of a process, separately for the training and the rest; Linux only."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Beside:
    """Processor seconds of background work: Python threads, and child processes.

    Threads that compute for the training (OpenMP) are not Python threads. The last time slice of a
    thread before it ended is missing.
    """

    def __init__(self) -> None:
        self._spent_s: dict[int, float] = {}

    def threads_s(self) -> float:
        """Processor seconds of all Python threads except the main thread, so far."""
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and thread.native_id is not None:
                spent_s = _thread_s(thread.native_id)
                if spent_s is not None:
                    self._spent_s[thread.native_id] = spent_s
        return sum(self._spent_s.values())

    def children_s(self) -> float:
        """Processor seconds of all processes below this one, so far, to the tick of the clock."""
        return sum(map(_process_s, _descendants(os.getpid())))


class Clock:
    """Processor time of the training itself, and of everything else."""

    def __init__(self) -> None:
        self._beside = Beside()

    def training_s(self) -> float:
        """Processor seconds of the main thread and of the threads that compute for it."""
        return time.process_time() - self._beside.threads_s()

    def beside_s(self) -> float:
        """Processor seconds of everything else."""
        return self._beside.threads_s() + self._beside.children_s()


def _thread_s(native_id: int) -> float | None:
    try:
        spent = Path(f"/proc/self/task/{native_id}/schedstat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(spent.split()[0]) / 1e9


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(word) for t in tasks for word in (t / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return found
    for child in children:
        found += [child, *_descendants(child)]
    return found


def _process_s(pid: int) -> float:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    user, system = after_name[11:13]
    return (int(user) + int(system)) / TICKS_PER_S
