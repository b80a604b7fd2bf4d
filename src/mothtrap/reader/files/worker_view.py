"""Captured data of one worker in one attempt: read as it grows, each byte once.

Shape suffixes: N = rows, C = committed records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core import jsonable
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.samples import SamplesNamed, SamplesTaken
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Ints
from mothtrap.reader.files.columns import Column
from mothtrap.reader.files.commits import ENDLESS, MODES, Commits
from mothtrap.reader.files.committed_rows import CommittedRows, Piece, append
from mothtrap.reader.files.statistic_rows import StatisticRows, StatisticsPiece
from mothtrap.store.event_columns import EventColumns
from mothtrap.store.layout import segments
from mothtrap.store.progress import progress, size_of, unreported
from mothtrap.store.unpacking import numbers

ScalarName = tuple[str, str, Mode]
AboutSamples = SamplesTaken | SamplesNamed
_ABOUT_SAMPLES = (SamplesTaken, SamplesNamed)
"""Facts reported at every step, which are read only on request."""
_PLACES = ("tensor", "dtype", "shape", "segment", "offset", "size", "checksum")


class ScalarColumn:
    """One scalar: its rows in `Commits`, and its values."""

    __slots__ = ("commits", "values")

    def __init__(self) -> None:
        self.commits = Column(ENDLESS, np.int64)
        self.values = Column(ENDLESS, np.float64)


class WorkerView:
    """The folder of one worker in one attempt; `refresh` reads new data.

    Scalars, statistics and the locations of raw tensors are read on first use, and then updated by
    `refresh`, so they are always as recent as the events.

    Attributes:
        steps: the number after its last training step, observed or not.
        first_step: its first train step; None before that.
        first_evaluated: step number of its first evaluation; None before that.
        started, ended: the facts with these names, or None.
        tensors: description of each tensor id.
        unwatched: its facts about steps that were not observed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.observations: list[Fact] = []
        self.commits = Commits()
        self.tensors: dict[int, TensorInfo] = {}
        self.loss_series: dict[str, LossSeries] = {}
        self.unwatched: list[Unwatched] = []
        self.steps = 0
        self.first_step: int | None = None
        self.first_evaluated: int | None = None
        self.started: WorkerStarted | None = None
        self.ended: WorkerEnded | None = None
        self._ids: dict[str, list[int]] = {}
        self._events = EventColumns(folder, frozenset(kind.__name__ for kind in _ABOUT_SAMPLES))
        self._samples: list[str] = []
        self._unreadable = 0
        self._scalar_rows: CommittedRows | None = None
        self._scalars: dict[ScalarName, ScalarColumn] = {}
        self._statistic_rows: StatisticRows | None = None
        self._statistics: list[StatisticsPiece] = []
        self._raw_rows: CommittedRows | None = None
        self._raw: list[Piece] = []

    def refresh(self) -> None:
        """Read new events, and new data of the types requested so far."""
        before = len(self.commits)
        if before:  # reading new data since the last time is fast
            self._read_events()
        else:
            with self._shown("events") as told:
                self._read_events(told)
        if len(self.commits) == before:
            return
        train_N, other_N = self._steps(before)
        if len(other_N) and self.first_evaluated is None:
            self.first_evaluated = int(other_N[0])
        if len(train_N):
            self.steps = max(self.steps, int(train_N.max()) + 1)
            if self.first_step is None:
                self.first_step = int(train_N[0])
        self._read_scalars()
        self._read_statistics()
        self._read_raw()

    def scalars(self) -> dict[ScalarName, ScalarColumn]:
        """Return every scalar, in order of first use."""
        if self._scalar_rows is None:
            self._scalar_rows = CommittedRows(
                self.folder, "scalars", "scalars", ("name", "of", "value")
            )
            with self._shown("scalars") as told:
                self._read_scalars(told)
        return self._scalars

    def statistics(self) -> list[StatisticsPiece]:
        """Return the statistics."""
        if self._statistic_rows is None:
            self._statistic_rows = StatisticRows(self.folder)
            with self._shown("stats") as told:
                self._read_statistics(told)
        return self._statistics

    def raw(self) -> list[Piece]:
        """Return the locations of stored tensors: the columns of `store.raw_reading.RawRow`."""
        if self._raw_rows is None:
            self._raw_rows = CommittedRows(self.folder, "index", "raw", _PLACES)
            with self._shown("index") as told:
                self._read_raw(told)
        return self._raw

    def samples(self) -> Iterator[AboutSamples]:
        """Yield the samples that the steps trained on, and their names, in order."""
        kind = cast("type[AboutSamples]", AboutSamples)
        self._unreadable = 0
        for text in self._samples:
            try:
                yield jsonable.decode(text, kind)
            except (msgspec.DecodeError, UnicodeError):
                self._unreadable += 1

    def ids(self, identity: str) -> list[int]:
        """Return the ids of a tensor; usually one."""
        return self._ids.get(identity, [])

    @property
    def has_read_statistics(self) -> bool:
        """Return whether the statistics were read, so that `damage` covers them."""
        return self._statistic_rows is not None

    @property
    def lacks_events(self) -> bool:
        """Return whether events are lost, possibly including the end of the worker."""
        if self.ended is not None:
            return False
        none_left = not len(self.commits) and self._has_numbers()
        return none_left or bool(self._events.damage(ended=True))

    def damage(self, *, ended: bool) -> tuple[str, ...]:
        """Return the damage to the parts read so far; with `ended`, an incomplete end counts."""
        rows = (self._statistic_rows, self._raw_rows, self._scalar_rows)
        found = [text for r in rows if r for text in r.damage(self.commits, ended=ended)]
        if self._unreadable:
            found.append(f"{self.folder.name}: samples of {self._unreadable} steps are damaged")
        if ended and not len(self.commits) and self._has_numbers():
            name = self.folder.name
            found.append(f"{name}: the events that assign its numbers to steps are lost")
        return (*self._events.damage(ended=ended), *found)

    def _has_numbers(self) -> bool:
        kinds: tuple[str, ...] = ("stats", "scalars", "index")
        return any(segments(self.folder, kind) for kind in kinds)

    def _read_events(self, told: Callable[[int], None] = unreported) -> None:
        for block in self._events.poll():
            self.commits.extend(block)
            for number, info in block.defined:
                self._define(number, info)
            for _, observation in block.observations:
                self.observations.append(observation)
                self._note(observation)
            self._samples += block.unread
            told(self._events.bytes_read)

    def _shown(self, kind: str) -> AbstractContextManager[Callable[[int], None]]:
        folder = self.folder
        return progress(f"reading {kind} of {folder.name}", lambda: size_of(folder, kind))

    def _define(self, number: int, info: TensorInfo) -> None:
        known = self.tensors.get(number)
        if known is None or known.identity != info.identity:
            if known is not None:
                self._ids[known.identity].remove(number)
            self._ids.setdefault(info.identity, []).append(number)
        self.tensors[number] = info

    def _note(self, observation: Fact) -> None:
        if isinstance(observation, WorkerStarted):
            self.started = observation
        elif isinstance(observation, WorkerEnded):
            self.ended = observation
        elif isinstance(observation, LossSeries):
            self.loss_series[observation.series] = observation
        elif isinstance(observation, Unwatched):
            self.steps = max(self.steps, observation.last_step + 1)
            self.unwatched.append(observation)

    def _steps(self, start: int) -> tuple[Ints, Ints]:
        """Record the steps of the records from `start` on: train steps and evaluations."""
        commits = self.commits
        step_C, told_C = commits.steps[start:], ~commits.closing[start:]
        train_C = commits.modes[start:] == MODES.index(Mode.TRAIN)
        return step_C[train_C & told_C], step_C[~train_C & told_C]

    def _read_statistics(self, told: Callable[[int], None] = unreported) -> None:
        if self._statistic_rows is not None:
            for piece in self._statistic_rows.poll_fields(self.commits):
                append(self._statistics, piece)
                told(self._statistic_rows.bytes_read)

    def _read_raw(self, told: Callable[[int], None] = unreported) -> None:
        if self._raw_rows is not None:
            for piece in self._raw_rows.poll(self.commits):
                append(self._raw, piece)
                told(self._raw_rows.bytes_read)

    def _read_scalars(self, told: Callable[[int], None] = unreported) -> None:
        if self._scalar_rows is not None:
            for piece in self._scalar_rows.poll(self.commits):
                for name, commit_N, value_N in _by_name(piece, self.commits):
                    column = self._scalars.setdefault(name, ScalarColumn())
                    column.commits.extend(commit_N)
                    column.values.extend(value_N)
                told(self._scalar_rows.bytes_read)


def _by_name(
    piece: Piece, commits: Commits
) -> Iterator[tuple[ScalarName, Ints, npt.NDArray[np.generic]]]:
    """Split rows of scalars by name, owner and mode, in the order of their first rows."""
    words = [piece.batch.column(name).dictionary_encode() for name in ("name", "of")]
    names, owners = (word.dictionary.to_pylist() for word in words)
    name_N, of_N = (numbers(word.indices) for word in words)
    mode_N = commits.modes[piece.commit_N]
    which_N = (name_N.astype(np.int64) * len(owners) + of_N) * len(MODES) + mode_N
    found, first, member_N = np.unique(which_N, return_index=True, return_inverse=True)
    value_N = piece.column("value")
    order_N = np.argsort(member_N, kind="stable")
    parts = np.split(order_N, np.cumsum(np.bincount(member_N))[:-1])
    for group in np.argsort(first, kind="stable"):
        rows, mode = parts[group], int(found[group]) % len(MODES)
        name, owner = divmod(int(found[group]) // len(MODES), len(owners))
        yield (names[name], owners[owner], MODES[mode]), piece.commit_N[rows], value_N[rows]
