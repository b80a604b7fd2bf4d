"""Reader of a worker's log, also while the log is being written.

A step record is complete when its `step` event exists. If the statistics or the scalars of a
record are damaged, the record is returned without them, and the damage is reported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core import fact, jsonable
from mothtrap.core.fact import Fact
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.store.statistic_columns import summaries
from mothtrap.store.tailing import SegmentTail
from mothtrap.store.unpacking import numbers
from mothtrap.store.worker_log import AGAIN, DEFINED, STEP, Commit, Defined

ColumnsT = TypeVar("ColumnsT")
RowsT = TypeVar("RowsT")
_BATCH_ERRORS = (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError)
_Stats = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]
_Event = tuple[StepKey, str, str]
_COMMIT = functools.partial(jsonable.decode, kind=Commit)
_DEFINED = functools.partial(jsonable.decode, kind=Defined)
_MODES = {mode.value: mode for mode in Mode}


@dataclass(slots=True, kw_only=True)
class StepEvents:
    """The events of one record: everything except statistics and scalars.

    `unread` are observations that have not been requested yet, in their stored form.
    """

    record: int
    key: StepKey
    commit: Commit
    defined: tuple[tuple[int, TensorInfo], ...]
    observations: tuple[Fact, ...]
    unread: tuple[str, ...] = ()


class RowReader(Generic[ColumnsT, RowsT]):
    """The rows of one kind of segment, by record."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.tail = SegmentTail(folder, kind)
        self.damage: list[str] = []
        self._kind = kind
        self._waiting: dict[int, RowsT] = {}
        self._newest = -1

    def columns(self, batch: pa.RecordBatch) -> ColumnsT:
        """Extract the needed columns of a batch, once for all its records."""
        raise NotImplementedError

    def split(self, columns: ColumnsT, start: int, stop: int) -> RowsT:
        """Return the rows of one record."""
        raise NotImplementedError

    def pull(self) -> list[tuple[int, RowsT]]:
        """Read further; return new rows by record, ascending; empty if there are none."""
        found: list[tuple[int, RowsT]] = []
        batches = self.tail.poll()
        while batches and not found:
            for batch in batches:
                try:
                    found += self._by_record(batch)
                except _BATCH_ERRORS as err:
                    self.damage.append(f"a batch of {self._kind} has unknown columns: {err}")
            if not found:
                batches = self.tail.poll()
        return found

    def take(self, record: int) -> RowsT | None:
        """Return the rows of a record that is known to be written; None if damaged."""
        while self._newest < record and (found := self.pull()):
            self._waiting.update(found)
            self._newest = max(self._newest, found[-1][0])
        for number in [n for n in self._waiting if n < record]:
            del self._waiting[number]  # their step was never committed
        return self._waiting.pop(record, None)

    def _by_record(self, batch: pa.RecordBatch) -> list[tuple[int, RowsT]]:
        record_R = numbers(batch.column("record"))
        starts = [0, *(np.flatnonzero(np.diff(record_R)) + 1).tolist()] if len(record_R) else []
        stops = [*starts[1:], len(record_R)]
        columns = self.columns(batch)
        return [
            (int(record_R[a]), self.split(columns, a, b))
            for a, b in zip(starts, stops, strict=False)
        ]


class _StatsRows(RowReader[_Stats, _Stats]):
    def columns(self, batch: pa.RecordBatch) -> _Stats:
        return numbers(batch.column("tensor")), summaries(batch)

    def split(self, columns: _Stats, start: int, stop: int) -> _Stats:
        return columns[0][start:stop], columns[1][start:stop]


class _ScalarRows(RowReader[list[Scalar], tuple[Scalar, ...]]):
    def columns(self, batch: pa.RecordBatch) -> list[Scalar]:
        columns = (batch.column(name).to_pylist() for name in ("name", "of", "value"))
        return [Scalar(*row) for row in zip(*columns, strict=True)]

    def split(self, columns: list[Scalar], start: int, stop: int) -> tuple[Scalar, ...]:
        return tuple(columns[start:stop])


def scalars_of(folder: Path, records: Collection[int]) -> dict[int, tuple[Scalar, ...]]:
    """Return the scalars of some records of a worker, by record, without damaged ones."""
    rows = _ScalarRows(folder, "scalars")
    found: dict[int, tuple[Scalar, ...]] = {}
    while new := rows.pull():
        found.update((record, scalars) for record, scalars in new if record in records)
    return found


class _EventRows(RowReader[list[_Event], list[_Event]]):
    def columns(self, batch: pa.RecordBatch) -> list[_Event]:
        names = ("step", "mode", "mode_step", "type", "json")
        columns = (batch.column(name).to_pylist() for name in names)
        return [
            (StepKey(step=step, mode=_MODES[mode], mode_step=mode_step), kind, text)
            for step, mode, mode_step, kind, text in zip(*columns, strict=True)
        ]

    def split(self, columns: list[_Event], start: int, stop: int) -> list[_Event]:
        return columns[start:stop]


class EventReader:
    """Reads the events of one worker, which is cheap and shows the worker's state.

    Args:
        folder: the worker's folder; need not exist yet.
        unread: types of observations that are passed on in their stored form.
    """

    def __init__(self, folder: Path, unread: frozenset[str] = frozenset()) -> None:
        self._folder, self._unread = folder, unread
        self._rows = _EventRows(folder, "events")
        self._damage: list[str] = []
        self._defined: set[int] = set()

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from the segments."""
        return self._rows.tail.bytes_read

    def poll(self) -> Iterator[StepEvents]:
        """Yield the new records, in order."""
        while found := self._rows.pull():
            for record, events in found:
                key, kind, text = events[-1]
                commit = self._decode(text, _COMMIT) if kind == STEP else None
                if commit is not None:
                    yield self._step(record, key, commit, events[:-1])

    def damage(self, *, ended: bool) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        pending = self._rows.tail.pending if ended else ()
        return (*self._rows.tail.damage, *self._rows.damage, *self._damage, *pending)

    def _step(self, record: int, key: StepKey, commit: Commit, events: list[_Event]) -> StepEvents:
        defined: list[tuple[int, TensorInfo]] = []
        observations: list[Fact] = []
        unread = []
        for _, kind, text in events:
            if kind in self._unread:
                unread.append(text)
            elif kind in (DEFINED, AGAIN):
                row = self._decode(text, _DEFINED)
                if row is not None and (kind == DEFINED or row.id not in self._defined):
                    self._defined.add(row.id)
                    defined.append((row.id, row.tensor))
            else:
                observation = self._decode(text, functools.partial(fact.decode, kind))
                if observation is not None:
                    observations.append(observation)
        return StepEvents(
            record=record,
            key=key,
            commit=commit,
            defined=tuple(defined),
            observations=tuple(observations),
            unread=tuple(unread),
        )

    def _decode(self, text: str, decoder: Callable[[str], RowsT]) -> RowsT | None:
        try:
            return decoder(text)
        except (msgspec.DecodeError, UnicodeError) as err:
            self._damage.append(f"{self._folder.name}: an event cannot be decoded: {err}")
            return None


@dataclass(slots=True)
class ReadState:
    """Progress of reading one worker's folder.

    Without `has_statistics`, records do not include the statistics of tensors.
    """

    folder: Path
    has_statistics: bool = True
    _events: EventReader = field(init=False)
    _stats: _StatsRows = field(init=False)
    _scalars: _ScalarRows = field(init=False)
    _incomplete: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._events = EventReader(self.folder)
        self._stats = _StatsRows(self.folder, "stats")
        self._scalars = _ScalarRows(self.folder, "scalars")

    def poll(self) -> Iterator[StepRecord]:
        """Yield the records added since the last poll, in order."""
        for events in self._events.poll():
            yield self._join(events)

    def damage(self, *, ended: bool = False) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        found = [*self._events.damage(ended=ended)]
        for rows in (self._stats, self._scalars):
            found += [*rows.tail.damage, *rows.damage, *(rows.tail.pending if ended else ())]
        if self._incomplete:
            found.append(
                f"{self.folder.name}: {self._incomplete} steps lack numbers because of damage"
            )
        return tuple(found)

    def _join(self, events: StepEvents) -> StepRecord:
        commit = events.commit
        tensor_T = np.empty(0, np.uint32)
        summary_TF = np.empty((0, commit.width), np.float64)
        scalars: tuple[Scalar, ...] = ()
        tensors = commit.tensors if self.has_statistics else 0
        stats = self._stats.take(events.record) if tensors else (tensor_T, summary_TF)
        if stats is not None and stats[1].shape == (tensors, commit.width):
            tensor_T, summary_TF = stats
        found = self._scalars.take(events.record) if commit.scalars else ()
        if found is not None and len(found) == commit.scalars:
            scalars = found
        self._incomplete += (len(tensor_T), len(scalars)) != (tensors, commit.scalars)
        return StepRecord(
            key=events.key,
            wall_s=commit.wall_s,
            optimizers=commit.optimizers,
            skipped=commit.skipped,
            defined=events.defined,
            tensor_T=tensor_T,
            summary_TF=summary_TF,
            scalars=scalars,
            observations=events.observations,
        )


def read_records(folder: Path, state: ReadState | None = None) -> list[StepRecord]:
    """Return the records of a worker that were added since the last call with `state`.

    Args:
        folder: the worker's folder.
        state: state of earlier calls with the same folder; None reads from the start.
    """
    return list((state or ReadState(folder)).poll())
