"""Compaction of a job's sealed segments during the job, in the launcher's process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mothtrap.store import compacting, layout

EVERY_S = 10.0
"""Interval between searches for sealed segments; chosen by hand."""
WAIT_S = 1.0
"""Time in which the thread notices that the main thread has ended without `finish`."""
END_S = 5.0
"""Time after the end of a job in which compaction of another segment may begin; chosen by hand."""
LESS_URGENT = 10
"""Niceness of the thread; chosen by hand. With the lowest priority, 19, a segment takes half a
minute on a busy machine, and the launcher waits for it.
"""


class Compactor:
    """A low-priority thread that compacts sealed files.

    It is not a daemon thread: the end of Python would interrupt it inside Arrow, which aborts the
    process.

    If compaction fails, the file is left unchanged, and the job is not affected.

    Args:
        run: folder of the run, on a disk of this machine.
        say: prints one line for the user.
    """

    def __init__(self, run: Path, say: Callable[[str], None]) -> None:
        self._run, self._say, self._over = run, say, threading.Event()
        self._deadline_s = float("inf")
        self._thread = threading.Thread(target=self._work, name="mothtrap compactor")
        self._thread.start()

    def finish(self) -> None:
        """Compact the last sealed files, for at most a few seconds, then stop."""
        self._deadline_s = time.monotonic() + END_S
        self._over.set()
        self._thread.join(END_S)
        # Not on that thread, which gets no time on a busy machine, while this process has nothing
        # else to do.
        if not self._thread.is_alive():
            self._look()

    def _work(self) -> None:
        with suppress(OSError, AttributeError):  # on Linux, this affects only this thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LESS_URGENT)
        looked_s = time.monotonic()
        while threading.main_thread().is_alive() and not self._over.wait(WAIT_S):
            if time.monotonic() - looked_s >= EVERY_S:
                self._look()
                looked_s = time.monotonic()

    def _look(self) -> None:
        try:
            for number in layout.attempts(self._run):
                for path in compacting.compactable(layout.attempt_folder(self._run, number)):
                    if time.monotonic() > self._deadline_s:
                        return
                    compacting.compact(path)
        except Exception as err:  # errors of files or the system must not affect the job
            self._say(f"mothtrap: segments were not compacted ({type(err).__name__}: {err})")
