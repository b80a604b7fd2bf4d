"""A run, live or done: what it found and what it captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

import numpy as np

from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.observations import Blind, Dropped, Observation, ToolError
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import Overhead, RuleStatus, RunEnd, RunInfo
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import KINDS, Kind
from mothtrap.core.window import Matrix, Series
from mothtrap.reader.attempts import AttemptView, State
from mothtrap.reader.history import History, read_worker
from mothtrap.reader.merging import merge_blind, merge_findings, merge_statuses
from mothtrap.statistics.summary import columns_for
from mothtrap.store import layout

ObservationT = TypeVar("ObservationT", bound=Observation)
_Asked = tuple[int, Kind | None, tuple[str, ...]]


def open_run(argument: str | Path | None = None, runs_dir: str | Path = "runs") -> Run:
    """Open a run for reading; the job may still be writing it.

    Args:
        argument: a path, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder of runs.

    Raises:
        RunNotFoundError: there is no such run; names the nearest.
    """
    return Run(layout.find_run(argument, runs_dir))


class Run:
    """What is known of a run; `refresh` reads what a running job has added.

    Opening reads the events and findings; the numbers are read when first asked for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._attempts: dict[int, AttemptView] = {}
        self._histories: dict[_Asked, History] = {}
        self.refresh()

    def __repr__(self) -> str:
        findings = self.findings
        errors = sum(finding.severity is Severity.ERROR for finding in findings)
        return (
            f"<Run {self.id}: {self.state}, {self.steps} steps, {len(self.workers)} workers, "
            f"{len(findings)} findings ({errors} errors)>"
        )

    def refresh(self) -> None:
        """Read what was added since the last time."""
        for number in layout.attempts(self.path):
            if number not in self._attempts:
                self._attempts[number] = AttemptView(layout.attempt_folder(self.path, number))
        for attempt in self._attempts.values():
            attempt.refresh()
        for (worker, _, _), history in self._histories.items():
            history.refresh(self._folders(worker))

    @property
    def id(self) -> str:
        """The run's own name, kept when its folder is renamed."""
        return self.info.id if self.info else self.path.name

    @property
    def info(self) -> RunInfo | None:
        """How the latest attempt was started; None when that cannot be read."""
        return self._latest.info

    @property
    def end(self) -> RunEnd | None:
        """How the latest attempt ended; None while it runs, and of watched scripts."""
        return self._latest.end

    @property
    def attempts(self) -> int:
        """The number of attempts."""
        return len(self._attempts)

    @property
    def state(self) -> State:
        """`running`, `finished` or `crashed`, judged now by what was last read."""
        return self._latest.state()

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks of all attempts, ascending."""
        return tuple(sorted({rank for a in self._attempts.values() for rank in a.workers}))

    @property
    def steps(self) -> int:
        """Train steps over all attempts: one more than the last one's number."""
        views = (w for a in self._attempts.values() for w in a.workers.values())
        return max((view.steps for view in views), default=0)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all workers joined, the most severe first, then by onset."""
        readers = (m for a in self._attempts.values() for m in a.monitors.values())
        return merge_findings(reader.findings for reader in readers)

    @property
    def rules(self) -> tuple[RuleStatus, ...]:
        """What became of each rule: its worst state over workers, by code."""
        readers = (m for a in self._attempts.values() for m in a.monitors.values())
        return merge_statuses(reader.statuses for reader in readers)

    @property
    def blind(self) -> tuple[Blind, ...]:
        """What was not observed, each said once."""
        return merge_blind(self.observations(Blind))

    @property
    def tool_errors(self) -> tuple[ToolError, ...]:
        """Parts of mothtrap that failed."""
        return tuple(self.observations(ToolError))

    @property
    def dropped(self) -> int:
        """How much was given up because a queue was full."""
        return sum(dropped.count for dropped in self.observations(Dropped))

    @property
    def overhead(self) -> Overhead:
        """mothtrap's own cost, summed over workers; of one that did not close, by its steps."""
        own_s = capture_s = wall_s = 0.0
        shed: dict[str, None] = {}
        for rank in self.workers:
            views = [a.workers[rank] for a in self._attempts.values() if rank in a.workers]
            ends = [view.ended for view in views if view.ended is not None]
            shed |= dict.fromkeys(name for end in ends for name in end.shed)
            if len(ends) == len(views):
                own_s += sum(end.own_s for end in ends)
                capture_s += sum(end.capture_s for end in ends)
                wall_s += sum(end.wall_s for end in ends)
            else:
                own_s += _sum(self._history(rank, None, ()), "own_s")
                wall_s += _sum(self._history(rank, None, ()), "step_s")
        ratio = own_s / wall_s if wall_s > 0 else 0.0
        return Overhead(ratio=ratio, seconds=own_s, capture_seconds=capture_s, shed=tuple(shed))

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read, so far as it was tried; numbers are tried when asked for."""
        ended = self.state != "running"
        found = [text for attempt in self._attempts.values() for text in attempt.damage()]
        found += [text for h in self._histories.values() for text in h.damage(ended=ended)]
        return tuple(dict.fromkeys(found))

    def scalars(
        self, pattern: str = "*", mode: Mode | None = None, *, worker: int | None = None
    ) -> tuple[Series, ...]:
        """Return the scalars of one worker over the whole run.

        Args:
            pattern: glob over `name` or `name:of`, e.g. `loss`, `lr:*`.
            mode: of the steps; None means all modes.
            worker: rank; None means the lowest.
        """
        series = self._history(worker, None, ()).window().series
        return tuple(
            s
            for s in series
            if (mode is None or s.mode is mode)
            and (fnmatchcase(s.name, pattern) or fnmatchcase(f"{s.name}:{s.of}", pattern))
        )

    def stats(
        self,
        kind: Kind,
        layers: str = "*",
        statistics: Sequence[str] = ("l2",),
        *,
        worker: int | None = None,
    ) -> dict[str, Matrix]:
        """Return statistics of tensors of one worker over the train steps of the run.

        Args:
            kind: of the tensors, e.g. `gradient`.
            layers: glob over tensor names and module paths.
            statistics: ids, see `statistics.summary.STATISTICS`.
            worker: rank; None means the lowest.

        Returns:
            A matrix for each statistic; without rows where nothing was captured.

        Raises:
            UnknownNameError: there is no such kind or statistic; names the nearest.
        """
        if kind not in KINDS:
            raise UnknownNameError(
                f"there is no kind {kind!r} of tensors{nearest(kind, KINDS)}; "
                f"kinds: {', '.join(KINDS)}"
            )
        columns_for(statistics)
        window = self._history(worker, kind, tuple(statistics)).window()
        found = {m.statistic: _choose(m, layers) for m in window.matrices}
        return {name: found.get(name) or _empty(kind, name) for name in statistics}

    def observations(self, kind: type[ObservationT]) -> tuple[ObservationT, ...]:
        """Return the observations of one type, of all workers, by attempt and rank."""
        views = [view for a in self._attempts.values() for _, view in sorted(a.workers.items())]
        return tuple(o for view in views for o in view.observations if isinstance(o, kind))

    def records(self, worker: int | None = None) -> Iterator[StepRecord]:
        """Yield the captured records from the disk; None means all workers, one by one."""
        for rank in self.workers if worker is None else (worker,):
            yield from read_worker(self._folders(rank))

    @property
    def _latest(self) -> AttemptView:
        return self._attempts[max(self._attempts)]

    def _folders(self, worker: int) -> list[Path]:
        views = (a.workers.get(worker) for _, a in sorted(self._attempts.items()))
        return [view.folder for view in views if view is not None]

    def _history(
        self, worker: int | None, kind: Kind | None, statistics: tuple[str, ...]
    ) -> History:
        rank = min(self.workers, default=0) if worker is None else worker
        asked = (rank, kind, statistics)
        if asked not in self._histories:
            needs = [Need(kinds=(kind,), statistics=statistics)] if kind else []
            self._histories[asked] = History(rank, needs)
            self._histories[asked].refresh(self._folders(rank))
        return self._histories[asked]


def _sum(history: History, name: str) -> float:
    return float(sum(np.sum(s.values_S) for s in history.window().scalars(name)))


def _choose(matrix: Matrix, layers: str) -> Matrix:
    """Return the columns whose tensor or module matches."""
    chosen = [
        column
        for column, tensor in enumerate(matrix.tensors)
        if fnmatchcase(tensor.name, layers) or fnmatchcase(tensor.module, layers)
    ]
    return Matrix(
        kind=matrix.kind,
        statistic=matrix.statistic,
        tensors=tuple(matrix.tensors[column] for column in chosen),
        steps_S=matrix.steps_S,
        values_ST=matrix.values_ST[:, chosen],
        present_ST=matrix.present_ST[:, chosen],
        skipped_S=matrix.skipped_S,
    )


def _empty(kind: str, statistic: str) -> Matrix:
    return Matrix(
        kind=kind,
        statistic=statistic,
        tensors=(),
        steps_S=np.empty(0, np.int64),
        values_ST=np.empty((0, 0)),
        present_ST=np.empty((0, 0), np.bool_),
        skipped_S=np.empty(0, np.bool_),
    )
