"""Runs that the page shows: opened once, extended as they grow, few at a time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mothtrap.core.errors import MothtrapError, RunNotFoundError, UnknownNameError
from mothtrap.core.steps import Mode
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.reader.run import Run, open_run
from mothtrap.report.machine import MachineRow, machine_rows
from mothtrap.report.source import noted_only
from mothtrap.report.summary import RunSummary, summarize
from mothtrap.store import layout
from mothtrap.store.machine_log import MachineReader, MachineSeries
from mothtrap.store.naming import name_here
from mothtrap.web.buckets import width_for
from mothtrap.web.known_rules import known_causes
from mothtrap.web.overviews import COLUMNS, ExactRows, Overview

T = TypeVar("T")
MOST_RUNS = 3
"""Maximum number of open runs; chosen by hand: the run that is viewed, and two to go back to."""
MOST_OVERVIEWS = 4
"""Maximum number of cached statistics of a run, each for all its tensors; chosen by hand."""
MOST_EXACT = 2
"""Maximum number of tensor selections with all rows cached; chosen by hand: a zoom, and the
previous zoom."""
MOST_FINE = 3
"""Maximum number of cached statistics of some steps; chosen by hand: a zoom, the previous zoom, and
a ratio."""
MOST_REMEMBERED = 6
"""Heatmaps and the like of a run; chosen by hand: each may take 100 MB."""
MOST_COLUMNS, MOST_CELLS = 2048, 5_000_000
"""Columns of such a statistic for each tensor, and for all of them; chosen by hand: 87 MB."""
AT_WORK = 2
"""Maximum number of concurrent reads; chosen by hand: the training needs the rest of the
machine."""
FRESH_S = 0.4
"""Age up to which a reading counts as new; chosen by hand: a person perceives it as live."""


class OpenRun:
    """A run, its summary and cached overviews; used under `lock`."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self.path = path
        self._run: Run | None = None
        self._read_s = float("-inf")
        self._traces = b""
        self._summary: tuple[str, RunSummary] | None = None
        self._names: tuple[str, Any] | None = None
        self._made: OrderedDict[Hashable, tuple[str, Any]] = OrderedDict()
        self._machine: dict[int, MachineReader] = {}
        self._overviews: OrderedDict[tuple[int, str, Mode], Overview] = OrderedDict()
        self._exact: OrderedDict[tuple[int, frozenset[int], str, Mode], ExactRows] = OrderedDict()
        self._fine: OrderedDict[tuple[int, str, Mode, int, int], Overview] = OrderedDict()

    @property
    def run(self) -> Run:
        """The run as of the last read."""
        if self._run is None:
            self._run, self._read_s = open_run(self.path), time.monotonic()
        return self._run

    def refresh(self, traces: bytes = b"") -> None:
        """Read new data, unless that was done just now.

        Args:
            traces: current traces of the run (`answer_cache.traces_of`); if they differ from the
                previous traces, the run is read immediately.

        Raises:
            RunNotFoundError: the run was removed.
        """
        if not layout.attempts(self.path):
            raise RunNotFoundError(
                f"the run {self.path.name!r} is gone: its folder {self.path} was removed or cannot "
                "be read; choose another run"
            )
        run = self.run
        if (traces and traces != self._traces) or time.monotonic() - self._read_s > FRESH_S:
            run.refresh()
            self._read_s, self._traces = time.monotonic(), traces

    @property
    def summary(self) -> RunSummary:
        """The summary of the run, cached until data is added."""
        cursor = self.run.cursor
        if self._summary is None or self._summary[0] != cursor:
            called = name_here(self.path)
            self._summary = cursor, summarize(self.run, known_causes(), called=called)
        return self._summary[1]

    @property
    def source_lines(self) -> dict[str, str]:
        """The source line at each location of a finding, if the file is unchanged."""
        try:
            ledger = self.run.ledger()
        except MothtrapError:
            return {}
        return noted_only(self.summary.sources, ledger, self.run.source_texts())

    def names(self, make: Callable[[OpenRun], T]) -> T:
        """Return the names of all curves and tensors; cached until data is added."""
        cursor = self.run.cursor
        if self._names is None or self._names[0] != cursor:
            self._names = cursor, make(self)
        found: T = self._names[1]
        return found

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value derived from the run, cached until data is added."""
        cursor = self.run.cursor
        if key not in self._made or self._made[key][0] != cursor:
            made = make()  # which may remember something itself
            self._made[key] = cursor, made
        self._made.move_to_end(key)
        while len(self._made) > MOST_REMEMBERED:
            self._made.popitem(last=False)
        found: T = self._made[key][1]
        return found

    @property
    def machine(self) -> tuple[MachineRow, ...]:
        """Machine metrics of the latest attempt, up to now."""
        latest = (layout.attempts(self.path) or [layout.FIRST_ATTEMPT])[-1]
        return machine_rows(self.machine_series(latest))

    def machine_series(self, attempt: int) -> dict[tuple[str, str], MachineSeries]:
        """Return an attempt's machine metrics by name and device, up to now."""
        if attempt not in self._machine:
            self._machine[attempt] = MachineReader(layout.attempt_folder(self.path, attempt))
        self._machine[attempt].poll()
        return self._machine[attempt].series

    def overview(self, view: WorkerView, statistic: str, mode: Mode) -> Overview:
        """Return the overview of a statistic, as far as the run was read."""
        key = (id(view), statistic, mode)
        if key not in self._overviews:
            self._overviews[key] = Overview(view, statistic, mode)
        self._overviews.move_to_end(key)
        while len(self._overviews) > MOST_OVERVIEWS * max(1, self.run.attempts):
            self._overviews.popitem(last=False)
        self._overviews[key].follow()
        return self._overviews[key]

    def fine_overview(
        self, view: WorkerView, statistic: str, mode: Mode, begin: int, end: int
    ) -> Overview:
        """Return an overview of some steps with more columns, for a few tensors."""
        columns = MOST_COLUMNS
        while columns > COLUMNS and columns * len(view.tensors) > MOST_CELLS:
            columns //= 2
        if end < ENDLESS:
            width = width_for(begin, end, columns)
            begin, end = begin // width * width, -(-end // width) * width
        key = (id(view), statistic, mode, begin, end)
        if key not in self._fine:
            self._fine[key] = Overview(view, statistic, mode, columns, begin, end)
        self._fine.move_to_end(key)
        while len(self._fine) > MOST_FINE * max(1, self.run.attempts):
            self._fine.popitem(last=False)
        self._fine[key].follow()
        return self._fine[key]

    def exact(
        self, view: WorkerView, tensors: frozenset[int], statistic: str, mode: Mode
    ) -> ExactRows:
        """Return every row of a statistic of some tensors, as far as the run was read."""
        key = (id(view), tensors, statistic, mode)
        if key not in self._exact:
            self._exact[key] = ExactRows(view, tensors, statistic, mode)
        self._exact.move_to_end(key)
        while len(self._exact) > MOST_EXACT * max(1, self.run.attempts):
            self._exact.popitem(last=False)
        self._exact[key].follow()
        return self._exact[key]


class OpenRuns:
    """The most recently viewed runs, by path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = threading.Semaphore(AT_WORK)
        self._runs: OrderedDict[Path, OpenRun] = OrderedDict()

    def __contains__(self, path: Path) -> bool:
        with self._lock:
            return path in self._runs

    @contextmanager
    def at(self, path: Path, traces: bytes = b"") -> Iterator[OpenRun]:
        """Open a run, read up to now, for the duration of a block.

        Args:
            path: folder of the run.
            traces: as for `OpenRun.refresh`.

        Raises:
            RunNotFoundError: the run does not exist, or no longer exists.
        """
        opened = self._opened(path)
        # Who waits for a run that is being opened does not keep others from another one.
        with opened.lock, self._working:
            try:
                opened.refresh(traces)
            except RunNotFoundError:
                with self._lock:
                    self._runs.pop(path, None)
                raise
            yield opened

    def _opened(self, path: Path) -> OpenRun:
        with self._lock:
            if path not in self._runs:
                self._runs[path] = OpenRun(path)
            self._runs.move_to_end(path)
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
            return self._runs[path]


def known_worker(run: Run, worker: int | None) -> int:
    """Return a worker's rank; None means the lowest rank.

    Raises:
        UnknownNameError: the run has no such worker.
    """
    if worker is None:
        return min(run.workers, default=0)
    if worker not in run.workers:
        raise UnknownNameError(f"there is no rank {worker} in {run.id}")
    return worker
