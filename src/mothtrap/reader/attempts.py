"""One attempt of a run as it stands: its workers, its end, whether it still runs."""

from __future__ import annotations

import os
import platform
import socket
import time
from pathlib import Path
from typing import Literal

import psutil

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.observations import AnyObservation, WorkerEnded, WorkerStarted
from mothtrap.core.runs import RunEnd, RunInfo
from mothtrap.reader.windows import is_step
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingReader
from mothtrap.store.worker_reading import EventReader

State = Literal["running", "finished", "crashed"]

QUIET_S = 60.0
"""On another host a job counts as running while it wrote within this time; chosen by
hand: above the slowest step that is common."""
CLOCK_SLACK_S = 5.0
"""How much later than `run.json` a process may seem to have begun, for it to be the
same process; chosen by hand: above the error of the boot time."""


class WorkerView:
    """What the events of one worker say.

    Attributes:
        steps: one more than its last train step.
        started, ended: its observations of that name, or None.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.observations: list[AnyObservation] = []
        self.steps = 0
        self.started: WorkerStarted | None = None
        self.ended: WorkerEnded | None = None
        self._reader = EventReader(folder)

    def refresh(self) -> None:
        """Read the new events."""
        for events in self._reader.poll():
            if is_step(events.key, events.commit.optimizers, events.observations):
                self.steps = max(self.steps, events.key.step + 1)
            self.observations += events.observations
            for observation in events.observations:
                if isinstance(observation, WorkerStarted):
                    self.started = observation
                elif isinstance(observation, WorkerEnded):
                    self.ended = observation

    def damage(self, *, ended: bool) -> tuple[str, ...]:
        """What could not be read."""
        return self._reader.damage(ended=ended)


class AttemptView:
    """One attempt; `refresh` reads what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info: RunInfo | None = None
        self.end: RunEnd | None = None
        self.workers: dict[int, WorkerView] = {}
        self.monitors: dict[int, FindingReader] = {}
        self._damage: dict[str, str] = {}

    def refresh(self) -> None:
        """Read new files, new workers, new events and findings."""
        # The end first: what a job wrote before it ended is then seen below.
        try:
            self.end = self.end or layout.read_end(self.path)
            self.info = self.info or layout.read_info(self.path)
            self._damage.pop("json", None)
        except (DamagedDataError, OSError) as err:
            self._damage["json"] = str(err)
        for rank in layout.workers(self.path):
            if rank not in self.workers:
                self.workers[rank] = WorkerView(layout.worker_folder(self.path, rank))
            self.workers[rank].refresh()
        for monitor in layout.monitors(self.path):
            if monitor not in self.monitors:
                self.monitors[monitor] = FindingReader(layout.monitor_folder(self.path, monitor))
            self.monitors[monitor].poll()

    def state(self) -> State:
        """Judge how the attempt stands, by what was last read and the processes of now."""
        if self.end is None and not self._ended_by_workers() and self._alive():
            return "running"
        ends = [worker.ended for worker in self.workers.values()]
        clean = all(end is not None and end.exception is None for end in ends)
        if self.end is not None:
            return "finished" if clean and self.end.exit_code >= 0 else "crashed"
        return "finished" if clean and ends else "crashed"

    def damage(self) -> tuple[str, ...]:
        """What could not be read of descriptions, events and findings."""
        ended = self.state() != "running"
        found = [text for w in self.workers.values() for text in w.damage(ended=ended)]
        found += [text for m in self.monitors.values() for text in m.damage(ended=ended)]
        return (*self._damage.values(), *(f"{self.path.name}/{text}" for text in found))

    def _ended_by_workers(self) -> bool:
        """Whether the job's own process watched itself, and every worker has closed."""
        pid = self.info.pid if self.info else None
        started = [worker.started for worker in self.workers.values()]
        own = any(start is not None and start.pid == pid for start in started)
        return own and all(worker.ended is not None for worker in self.workers.values())

    def _alive(self) -> bool:
        if self.info is not None and self.info.host in (socket.gethostname(), platform.node()):
            return _process_alive(self.info.pid, self.info.created_s)
        return time.time() - self._touched_s() < QUIET_S

    def _touched_s(self) -> float:
        newest = 0.0
        for folder in (self.path, *(worker.folder for worker in self.workers.values())):
            try:
                with os.scandir(folder) as entries:
                    newest = max([newest, *(entry.stat().st_mtime for entry in entries)])
            except OSError:
                continue
        return newest


def _process_alive(pid: int, created_s: float) -> bool:
    """Whether the process that was `pid` at `created_s` still lives."""
    try:
        process = psutil.Process(pid)
        same = bool(process.create_time() <= created_s + CLOCK_SLACK_S)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False
