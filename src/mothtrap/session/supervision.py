"""Observation of all workers by the launcher: compares them, and finds out which ends first."""

from __future__ import annotations

import functools
import threading
from pathlib import Path

import numpy as np

from mothtrap.capture.containment import Containment, say_on_stderr
from mothtrap.core.config import Config
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import StepRecord
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.joined import JoinedWindows, stall_record
from mothtrap.monitor.monitor import Monitor
from mothtrap.session.exit_order import ExitOrder
from mothtrap.session.live_monitor import LiveMonitor
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.stalls import StallReader
from mothtrap.store.worker_reading import EventReader, StepEvents

LOOK_EVERY_S = 1.0
"""Interval at which workers' files are read; chosen by hand."""
LOOK_SOON_S = 0.1
"""The same interval while some workers have begun and others are awaited. A worker that dies before
it is watched cannot be distinguished from workers that are killed because of it. Chosen by hand:
the interval of torchrun.
"""
MONITOR = layout.MAX_WORKERS
"""Number of the launcher's monitor, which no worker has."""


class Supervision:
    """Reads the events of all workers while the job runs, on its own thread.

    It begins to read when there is a second worker. Failures in it are reported once, and the job
    continues.

    Args:
        attempt: the folder of the attempt that this launch opened; a launcher within the job that
            restarts workers opens the later attempts.
        config: configuration of the active rules.
    """

    def __init__(self, attempt: Path, config: Config) -> None:
        self._run, self._first = attempt.parent, int(attempt.name)
        self._config = config
        self._attempts: dict[int, _Attempt] = {}
        self._exits = ExitOrder()
        self._stopped = threading.Event()
        self._containment = Containment(say_on_stderr)
        self._thread = threading.Thread(target=self._watch, name="mothtrap supervision")
        self._thread.daemon = True

    def begin(self) -> None:
        """Start watching the workers."""
        self._thread.start()

    def close(self) -> None:
        """Read the workers' last data, and stop watching them."""
        self._stopped.set()
        self._thread.join()
        self._contained(last=True)
        self._exits.close()

    @property
    def latest(self) -> Path:
        """Folder of the last attempt of the launch."""
        return layout.attempt_folder(self._run, max(self._numbers(), default=self._first))

    @property
    def lost(self) -> tuple[int, ...]:
        """Workers of the last attempt that never closed their record, first to die first.

        Known for jobs with several workers, once the job has ended. If it is unknown which died
        first (see `order_seen`), the worker that stopped storing data first comes first.
        """
        attempt = self._attempts.get(int(self.latest.name))
        if attempt is None:
            return ()
        stopped_s = attempt.last_stored_s
        open_ones = attempt.unclosed()
        first = self._exits.first_of(open_ones)
        return tuple(sorted(open_ones, key=lambda r: (r != first, stopped_s[r], r)))

    @property
    def order_seen(self) -> bool:
        """Return whether the first worker in `lost` is known to have died before the others."""
        lost = self.lost
        return len(lost) < 2 or self._exits.first_of(lost) is not None

    def _numbers(self) -> list[int]:
        return [number for number in layout.attempts(self._run) if number >= self._first]

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S if self._is_watching_all else LOOK_SOON_S):
            self._contained(last=False)

    @property
    def _is_watching_all(self) -> bool:
        """Return whether no further worker is expected: no worker has begun, or all have."""
        return all(not attempt.awaited for attempt in self._attempts.values())

    def _contained(self, *, last: bool) -> None:
        if self._containment.is_off("supervision"):
            return
        try:
            self._look(last=last)
        except Exception as err:  # failures here must not affect the job
            self._containment.report("supervision", err)

    def _look(self, *, last: bool) -> None:
        for number in self._numbers():
            folder = layout.attempt_folder(self._run, number)
            if number not in self._attempts:
                if len(layout.workers(folder)) < 2:
                    continue
                self._exits.forget()  # ranks of the previous attempt
                self._attempts[number] = _Attempt(folder, self._config)
            for started in self._attempts[number].look(last=last):
                self._exits.expect(started)


class _Attempt:
    """The workers of one attempt, and the rules that compare them.

    `last_stored_s`: the time of the last step that a worker stored. `awaited`: number of workers of
    the job, on any host, without data so far; 0 before the first worker.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        self._folder, self._config = folder, config
        self._readers: dict[int, EventReader] = {}
        self._stalls: dict[int, StallReader] = {}
        self._started: set[int] = set()
        self._ended: set[int] = set()
        self.last_stored_s: dict[int, float] = {}
        self.awaited = 0
        self._windows = JoinedWindows()
        rules = [rule for rule in load_rules(config) if rule.compares]
        self._evaluates = config.evaluate == "job" and bool(rules)
        self._monitor = Monitor(rules, builder=self._windows, quiet=Quiet.of(config))

    @functools.cached_property
    def _judge(self) -> LiveMonitor:
        monitor = LiveMonitor(self._monitor, say_on_stderr, self._unsaved)
        monitor.keep_in(self._folder, MONITOR, self._config.durability, self._config.roll_s)
        return monitor

    def look(self, *, last: bool) -> list[WorkerStarted]:
        """Read and evaluate new data; return the workers that have begun."""
        begun = []
        for rank in layout.workers(self._folder):
            if rank not in self._readers:
                self._readers[rank] = EventReader(layout.worker_folder(self._folder, rank))
            for events in self._readers[rank].poll():
                record = _record(events)
                self._windows.add(rank, record)
                self.last_stored_s[rank] = record.wall_s
                for seen in events.observations:
                    if isinstance(seen, WorkerStarted):
                        self._started.add(rank)
                        self.awaited = max(0, seen.world_size - len(self._started))
                        begun.append(seen)
                    elif isinstance(seen, WorkerEnded):
                        self._ended.add(rank)
                if self._evaluates and events.observations and self._started:
                    self._judge.consume([record])
            self._look_for_stall(rank)
        if self._evaluates and self._started:
            self._judge.tend()
            if last:
                self._judge.close()
        return begun

    def _look_for_stall(self, rank: int) -> None:
        """Read the position of workers that do not step."""
        if rank not in self._stalls:
            self._stalls[rank] = StallReader(layout.worker_folder(self._folder, rank))
        state = self._stalls[rank].poll()
        if state is not None and self._evaluates and self._started:
            record = stall_record(state)
            self._windows.add(rank, record)
            self._judge.consume([record])

    def unclosed(self) -> set[int]:
        """Return the workers that have begun and never closed their record."""
        return self._started - self._ended

    def _unsaved(self, err: OSError) -> None:
        say_on_stderr(f"mothtrap: cannot store the findings of all workers ({err})")


def _record(events: StepEvents) -> StepRecord:
    """Return events as a record without numbers."""
    return StepRecord(
        key=events.key,
        wall_s=events.commit.wall_s,
        optimizers=events.commit.optimizers,
        skipped=events.commit.skipped,
        defined=(),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        observations=events.observations,
    )
