"""One attempt of a run: its workers, its end, and whether it is running."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import psutil

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.guards import StepGuarded, TrainingStopped
from mothtrap.core.probed import Probed
from mothtrap.core.replays import StoredReplay
from mothtrap.core.runs import RunEnd, RunInfo, RunKind
from mothtrap.core.served import Served
from mothtrap.reader.files.copies import copied_workers
from mothtrap.reader.files.node_views import NodeViews
from mothtrap.reader.files.unread import Budget, FileChecks, UnreadOfWorker, attempt_damage
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingReader
from mothtrap.store.mirror import Mirror
from mothtrap.store.processes import start_ticks
from mothtrap.store.tailing import SegmentTail
from mothtrap.store.writers import at_work

T = TypeVar("T")
State = Literal["running", "finished", "crashed"]

QUIET_S = 60.0
"""A job on another host counts as running if it wrote within this time, or if its location could
not be reached. Chosen by hand, longer than usual slow steps.
"""
_REST = "; the rest of the run can still be read"
CLOCK_SLACK_S = 5.0
"""Maximum time by which a process may seem to have begun after `run.json` and still be the same
process; chosen by hand, above the error of the boot time.
"""


class AttemptView:
    """One attempt of a run; `refresh` reads new data.

    Args:
        path: folder of the attempt.
        mirror: mirror to which the folder belongs; kept alive by this object.

    Attributes:
        nodes: what the merged logs of nodes report about their workers.
        copies: ranks whose folders are ignored because they are copies, with a sentence.
        writing: whether more data may follow, determined before the last read.
        gone: ranks that no longer write, determined before the last read.
    """

    def __init__(self, path: Path, *, mirror: Mirror | None = None) -> None:
        self.path = path
        self._mirror = mirror
        self.info: RunInfo | None = None
        self.end: RunEnd | None = None
        self.replay: StoredReplay | None = None
        self.replay_changed_ns = 0
        self.probed: Probed | None = None
        self.served: Served | None = None
        self.workers: dict[int, WorkerView] = {}
        self.monitors: dict[int, FindingReader] = {}
        self.nodes = NodeViews(path)
        self.copies: dict[int, str] = {}
        self.writing = True
        self.gone: frozenset[int] = frozenset()
        self._damage: dict[str, str] = {}
        self._unread: dict[int, UnreadOfWorker] = {}
        self._tails: dict[str, SegmentTail] = {}
        self._touched_s: float | None = None
        self._changed_s = float("-inf")

    def refresh(self, *, judge: bool = True, unheard_s: float = float("-inf")) -> None:
        """Read new files, workers, events and findings.

        Args:
            judge: check again which processes are alive; costs about 50 us each.
            unheard_s: `time.monotonic()` when its location was last unreachable.
        """
        # Read the end first: everything that the job wrote before it is then found below.
        alive, dead = self._judge(unheard_s) if judge else (self.writing, self.gone)
        self.end = self.end or self._described("end", layout.read_end)
        self._read_replay()
        self.probed = self.probed or self._described("probe", layout.read_probed)
        self.info = self.info or self._described("info", layout.read_info)
        if self.info is not None and self.info.kind is RunKind.SERVE:  # it grows
            self.served = self._described("serve", layout.read_served) or self.served
        if self.info is None:
            self._damage.setdefault("info", f"{self.path / 'run.json'} is missing{_REST}")
        self._read_workers()
        self.nodes.refresh()
        for monitor in layout.monitors(self.path):
            if monitor not in self.monitors:
                self.monitors[monitor] = FindingReader(layout.monitor_folder(self.path, monitor))
            self.monitors[monitor].poll()
        ended = frozenset(rank for rank, worker in self.workers.items() if worker.ended)
        # it is written when everything is over
        said = self.end is not None or "end" in self._damage
        self.writing = alive and not said and not self._ended_by_workers()
        self.gone = ended | dead if self.writing else frozenset(self.workers)

    def state(self) -> State:
        """Return the state of the attempt at the last refresh."""
        if self.writing:
            return "running"
        ends = [worker.ended for worker in self.workers.values() if not self._lost_end(worker)]
        clean = all(end is not None and end.exception is None for end in ends)
        if self.end is not None:
            # Launchers may kill the last workers of a stopping job before these have closed.
            clean = clean or (
                bool(self.stops) and all(end is None or end.exception is None for end in ends)
            )
            # For a job that never trained, only the exit code matters.
            failed = self.end.exit_code < 0 or (self.end.exit_code > 0 and not ends)
            return "finished" if clean and not failed else "crashed"
        return "finished" if clean and ends else "crashed"

    @property
    def stops(self) -> list[StepGuarded | TrainingStopped]:
        """Return facts about the stop of each worker's training: by its guard, or by a request."""
        return [
            fact
            for worker in self.workers.values()
            for fact in worker.observations
            if (isinstance(fact, StepGuarded) and fact.action == "stopped")
            or (isinstance(fact, TrainingStopped) and not fact.error)
        ]

    def damage(self, files: FileChecks, budget: Budget, *, elsewhere: bool) -> tuple[str, ...]:
        """Return the damage to all files of the attempt, reading files not requested so far.

        Args:
            files: checks of the files of the run.
            budget: bytes that the checks may read.
            elsewhere: files may be in an object store.
        """
        ended = self.state() != "running"
        unread = list(attempt_damage(self.path, self._tails, ended=ended))
        for rank, view in self.workers.items():
            own = self._unread.setdefault(rank, UnreadOfWorker(view, files))
            unread += own.damage(budget, ended=ended, elsewhere=elsewhere)
        found = [text for w in self.workers.values() for text in w.damage(ended=ended)]
        found += [text for m in self.monitors.values() for text in m.damage(ended=ended)]
        found += self.nodes.damage(ended=ended)
        if ended:
            found += [f"m{n}: no files of findings are left" for n in self._lacking_findings()]
        told = (*self._damage.values(), *self.copies.values())
        told = (*told, *(f"{self.path.name}/{text}" for text in found), *unread)
        return told if elsewhere else (*told, *self._missing(told))

    def _missing(self, told: tuple[str, ...]) -> Iterator[str]:
        """Yield files that existed at the end and are missing now, except files in `told`."""
        listed = self.end.files if self.end is not None else ()
        for name in layout.missing_files(self.path, listed):
            if not any(name in text for text in told):
                yield f"{self.path.name}/{name} is missing or empty{_REST}"

    def _read_workers(self) -> None:
        for rank in layout.workers(self.path):
            if rank in self.copies:
                continue
            if rank not in self.workers:
                self.workers[rank] = WorkerView(layout.worker_folder(self.path, rank))
            self.workers[rank].refresh()
        for rank, why in copied_workers(self.workers):
            self.copies[rank] = f"{self.path.name}/w{rank} is left out: {why}"
            del self.workers[rank]

    def _lost_end(self, worker: WorkerView) -> bool:
        """Return whether a job ended successfully and only the end event of a worker is missing."""
        end = self.end
        return end is not None and end.exit_code == 0 and not end.lost and worker.lacks_events

    def _lacking_findings(self) -> Iterator[int]:
        """Yield the monitors that ran until a worker ended, but whose findings are missing."""
        facts = [fact for worker in self.workers.values() for fact in worker.observations]
        if any(isinstance(fact, ToolError) for fact in facts):
            return
        for number, monitor in self.monitors.items():
            # The monitor of a worker has its rank as id; a job may also have one monitor for all
            # workers.
            own = self.workers.get(number)
            judged = (own,) if own is not None else self.workers.values()
            closed = any(worker.ended is not None and worker.steps for worker in judged)
            if closed and not (monitor.statuses or monitor.findings or monitor.damage()):
                yield number

    def _read_replay(self) -> None:
        """Read the latest replay, which may be made long after the end."""
        changed_ns = layout.replay_changed_ns(self.path)
        if changed_ns != self.replay_changed_ns:
            self.replay_changed_ns = changed_ns
            self.replay = self._described("replay", layout.read_replay)

    def _described(self, what: str, read: Callable[[Path], T | None]) -> T | None:
        """Read a description independently of the others; record unreadable descriptions."""
        try:
            found = read(self.path)
        except (DamagedDataError, OSError) as err:
            self._damage[what] = str(err)
            return None
        self._damage.pop(what, None)
        return found

    def _ended_by_workers(self) -> bool:
        """Return whether the job's own process is watched, and every worker has closed."""
        pid = self.info.pid if self.info else None
        started = [worker.started for worker in self.workers.values()]
        own = any(start is not None and start.pid == pid for start in started)
        return own and all(worker.ended is not None for worker in self.workers.values())

    def _judge(self, unheard_s: float) -> tuple[bool, frozenset[int]]:
        """Return whether any process may write more, and the ranks of this host that will not."""
        started = {rank: worker.started for rank, worker in self.workers.items()}
        here = {rank: start for rank, start in started.items() if start and _is_here(start.host)}
        # A script outlives a launcher that was killed, and its writer process outlives both.
        living = set(at_work(self.path))
        living |= {
            rank
            for rank, start in here.items()
            if self.workers[rank].ended is None
            and _process_alive(start.pid, time.time(), start.pid_ticks)
        }
        dead = frozenset(here.keys() - living)
        return bool(living) or self._is_launched(unheard_s), dead

    def _is_launched(self, unheard_s: float) -> bool:
        info = self.info
        if info is not None and _is_here(info.host):
            return _process_alive(info.pid, info.created_s, info.pid_ticks)
        return self._quiet_s(unheard_s) < QUIET_S

    def _quiet_s(self, unheard_s: float) -> float:
        """Return the seconds without a write, as observed from here.

        Because clocks differ, this is either the age of the files, or the time for which they have
        not changed.
        """
        now_s, touched_s = time.monotonic(), self._newest_s()
        if self._touched_s not in (None, touched_s):
            self._changed_s = now_s
        self._touched_s = touched_s
        seen_s = max(self._changed_s, unheard_s) if self.writing else self._changed_s
        return min(time.time() - touched_s, now_s - seen_s)

    def _newest_s(self) -> float:
        """Return the time of the latest write; 0 without any."""
        newest_s = 0.0
        for folder in (self.path, *(worker.folder for worker in self.workers.values())):
            try:
                with os.scandir(folder) as entries:
                    newest_s = max([newest_s, *(entry.stat().st_mtime for entry in entries)])
            except OSError:
                continue
        return newest_s


def _is_here(host: str) -> bool:
    return host in (socket.gethostname(), platform.node())


def _process_alive(pid: int, created_s: float, ticks: int = 0) -> bool:
    """Return whether process `pid`, started at `created_s` or at `ticks`, still exists."""
    try:
        process = psutil.Process(pid)
        if ticks:
            same = start_ticks(pid) == ticks
        else:
            same = bool(process.create_time() <= created_s + CLOCK_SLACK_S)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False
