"""Log of one worker's captured data, as rows: writing.

Three kinds of segments share a running `record` number per step record:

    stats    record, tensor, summary (a list of F float64)
    scalars  record, step, mode, mode_step, name, of, value
    events   record, step, mode, mode_step, type, json

A worker that stores whole tensors also has the segments of `raw_log`. The tensors of a chunk are
written first, then the statistics, the scalars, and the events. The last event of a record has the
type `step` and the number of rows of the record. A step exists once this row is written.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core import fact, jsonable
from mothtrap.core.records import StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.texts import storable
from mothtrap.store import columns
from mothtrap.store.durability import Durability, Syncer, sync_folder
from mothtrap.store.raw_log import RawLog
from mothtrap.store.rolling import RollClock
from mothtrap.store.segments import ROLL_BYTES, SegmentLog
from mothtrap.store.size_limit import SizeLimit

STEP = "step"
DEFINED = "defined"
AGAIN = "defined_again"
"""Type of an event that repeats `defined` in the next batch, for readers that miss the first."""

_KEY_FIELDS = (
    pa.field("record", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("mode", pa.string(), nullable=False),
    pa.field("mode_step", pa.int64(), nullable=False),
)


def _schema(**columns: pa.DataType) -> pa.Schema:
    fields = (pa.field(name, kind, nullable=False) for name, kind in columns.items())
    return pa.schema([*_KEY_FIELDS, *fields])


SCALARS = _schema(name=pa.string(), of=pa.string(), value=pa.float64())
EVENTS = _schema(type=pa.string(), json=pa.string())


@functools.cache
def _stats_schema(width: int) -> pa.Schema:
    # These rows are as small as possible, because they are almost all that a run writes and a
    # reader reads.
    kinds = {"tensor": pa.uint32(), "summary": pa.list_(pa.float64(), width)}
    fields = (pa.field(name, kind, nullable=False) for name, kind in kinds.items())
    return pa.schema([_KEY_FIELDS[0], *fields])


_BATCH_BYTES = 2 << 20
"""Approximate maximum size of the statistics in one batch. Chosen by hand: the batch stays in the
CPU caches until it is summed and written.
"""
_LEAST_BATCH_BYTES = 1 << 12
"""Approximate minimum size of the statistics in one batch; chosen by hand: the header of a batch
has under 1 kB.
"""
_PARTS = 8
"""Maximum number of batches in the first append; each later append has one batch less. Damage to a
batch then costs at most about this fraction of a run. Chosen by hand: a batch takes about 50 us to
write."""

# Bounds for plausible values; chosen by hand, far above those of any training run.
Size = Annotated[int, msgspec.Meta(ge=0)]
Width = Annotated[int, msgspec.Meta(ge=0, le=4096)]
TensorId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 24)]


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The `step` event: data of a record that is in no other row, and the number of its rows."""

    wall_s: float
    optimizers: tuple[str, ...]
    skipped: bool
    tensors: Size
    width: Width
    scalars: Size
    events: Size
    raw: Size = 0


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    """The `defined` event: a tensor and its id."""

    id: TensorId
    tensor: TensorInfo


class WorkerLog:
    """Writes the step records of one worker; close it to seal the segments.

    Args:
        folder: existing folder of the worker.
        roll_bytes: size at which a segment is sealed and the next segment begins.
        durability: failures that the records survive.
        limit_bytes: size after which less is written; see `size_limit`.
        roll_s: seconds after which segments are also sealed; see `rolling`. All are sealed then,
            `events` last, so that a sealed `events` segment refers only to sealed segments.

    Attributes:
        trouble: error that prevented the last `append` from maintaining the segments.
    """

    def __init__(
        self,
        folder: Path,
        *,
        roll_bytes: int = ROLL_BYTES,
        durability: Durability = "crash",
        roll_s: float | None = None,
        limit_bytes: float | None = None,
    ) -> None:
        self._limit = SizeLimit(limit_bytes)
        log = functools.partial(SegmentLog, folder, roll_bytes=roll_bytes, durability=durability)
        self._stats, self._scalars = log("stats"), log("scalars")
        self._events = log("events", roll_bytes=sys.maxsize)  # `tend` seals it, after the others
        self._roll_bytes = roll_bytes
        self._raw = RawLog(folder, roll_bytes=roll_bytes, durability=durability)
        if durability == "power":
            sync_folder(folder.parent)
        self._room = _Room()
        # Greater than all record numbers of an earlier log in the same folder, because each log
        # begins new segments.
        logs = (self._stats, self._scalars, self._events, self._raw)
        self._next_record = max(log.next_seq for log in logs) << 32
        self._defined: Definitions = ()
        self._parts = _PARTS
        self._syncer = Syncer((self._raw, self._stats, self._scalars, self._events), durability)
        self._clock = RollClock(roll_s)
        self.trouble: OSError | None = None

    def append(self, records: Sequence[StepRecord]) -> None:
        """Write records; after this returns, they survive the death of the process.

        Raises:
            OSError: the disk rejected the write. Readers see none of these records, and they can be
                appended again.
        """
        lost = self._limit.lost
        try:
            self._append(records)
        except OSError:
            self._limit.lost = lost
            raise
        self.trouble = None
        try:
            self.tend()
        except OSError as err:  # the records are written
            self.trouble = err

    def _append(self, records: Sequence[StepRecord]) -> None:
        logs = (self._raw, self._stats, self._scalars, self._events)
        admitted = self._limit.admit(records, sum(log.written_bytes for log in logs))
        numbered = [(self._next_record + i, record) for i, record in enumerate(admitted)]
        self._next_record += len(numbered)
        for number, record in numbered:
            self._raw.append(number, record.key, record.raw)
        for batch in _stats_batches(numbered, self._room, self._parts):
            self._stats.append(batch)
        parts = list(_divided(numbered, self._parts))
        told = [part for part in parts if any(record.scalars for _, record in part)]
        if told:
            self._scalars.append(*map(_scalars_batch, told))
        if parts:
            again = [self._defined, *map(_definitions, parts)]
            self._events.append(*map(_events_batch, parts, again))
            self._defined = again[-1]
            self._parts = max(1, self._parts - 1)
            self._clock.wrote()

    def tend(self) -> None:
        """Seal segments that are due; with the durability `power`, also sync the rest to disk.

        Call this even if no data comes in; raises OSError.
        """
        if self._clock.due or self._events.size_bytes >= self._roll_bytes:
            self.close()
        self._syncer.sync_if_due()

    def close(self) -> None:
        """Seal all segments; no data is lost if this is not called.

        Records that are appended later begin new segments.
        """
        for log in (self._raw, self._stats, self._scalars, self._events):
            log.close()
        self._clock.sealed()


Rows = npt.NDArray[Any]
_Numbered = Sequence[tuple[int, StepRecord]]
Definitions = Sequence[tuple[int, TensorInfo]]


def _divided(numbered: _Numbered, parts: int) -> Iterator[_Numbered]:
    """Divide records into batches."""
    size = -(-len(numbered) // parts)
    for start in range(0, len(numbered), size or 1):
        yield numbered[start : start + size]


def _definitions(numbered: _Numbered) -> Definitions:
    return [each for _, record in numbered for each in record.defined]


def _record_column(numbered: _Numbered, rows: Sequence[int]) -> pa.Array:
    """Return the first column; `rows` is the number of rows of each record."""
    return columns.numbers(np.repeat(np.array([n for n, _ in numbered], np.int64), rows))


def _key_columns(numbered: _Numbered, rows: Sequence[int]) -> list[pa.Array]:
    """Return the columns with step and mode, for segments that have them."""
    keys = [record.key for _, record in numbered]
    modes = {key.mode.value for key in keys}
    steps = np.array([key.step for key in keys], np.int64)
    mode_steps = np.array([key.mode_step for key in keys], np.int64)
    return [
        _record_column(numbered, rows),
        columns.numbers(np.repeat(steps, rows)),
        columns.texts([key.mode.value for key, n in zip(keys, rows, strict=True) for _ in range(n)])
        if len(modes) > 1
        else columns.repeated(modes.pop(), sum(rows)),
        columns.numbers(np.repeat(mode_steps, rows)),
    ]


class _Room:
    """Reused memory for joining the parts of a batch; new memory would cost more."""

    def __init__(self) -> None:
        self._numbers = np.empty(0)

    def joined(self, parts: Sequence[Rows]) -> npt.NDArray[np.float64]:
        """Return the rows of all parts, shape (N, F); valid until the next call."""
        if len(parts) == 1:
            return np.ascontiguousarray(parts[0], np.float64)
        rows, width = sum(map(len, parts)), parts[0].shape[1]
        if rows * width > len(self._numbers):
            self._numbers = np.empty(rows * width)
        joined_NF = self._numbers[: rows * width].reshape(rows, width)
        return np.concatenate(parts, out=joined_NF)


def _stats_batches(numbered: _Numbered, room: _Room, parts: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of some records with summaries of equal width; valid until the next batch."""
    group: list[tuple[int, StepRecord]] = []
    whole = sum(record.summary_TF.nbytes for _, record in numbered)
    most = min(_BATCH_BYTES, max(_LEAST_BATCH_BYTES, whole // parts))
    size = 0
    for number, record in numbered:
        if not len(record.tensor_T):
            continue
        width = record.summary_TF.shape[1]
        if group and (group[-1][1].summary_TF.shape[1] != width or size >= most):
            yield _stats_batch(group, room)
            group, size = [], 0
        group.append((number, record))
        size += record.summary_TF.nbytes
    if group:
        yield _stats_batch(group, room)


def _stats_batch(numbered: _Numbered, room: _Room) -> pa.RecordBatch:
    tensors = np.concatenate([record.tensor_T for _, record in numbered])
    summary_NF = room.joined([record.summary_TF for _, record in numbered])
    batch = [
        _record_column(numbered, [len(record.tensor_T) for _, record in numbered]),
        columns.numbers(tensors.astype(np.uint32, copy=False)),
        columns.vectors(summary_NF),
    ]
    return pa.record_batch(batch, schema=_stats_schema(summary_NF.shape[1]))


def _scalars_batch(numbered: _Numbered) -> pa.RecordBatch:
    scalars = [scalar for _, record in numbered for scalar in record.scalars]
    batch = [
        *_key_columns(numbered, [len(record.scalars) for _, record in numbered]),
        columns.texts([storable(s.name) for s in scalars]),
        columns.texts([storable(s.of) for s in scalars]),
        columns.numbers(np.array([s.value for s in scalars], np.float64)),
    ]
    return pa.record_batch(batch, schema=SCALARS)


def _events(record: StepRecord, again: Definitions) -> list[tuple[str, str]]:
    rows = [
        (kind, jsonable.text(Defined(id=int(number), tensor=tensor)))
        for kind, tensors in ((AGAIN, again), (DEFINED, record.defined))
        for number, tensor in tensors
    ]
    rows += [(fact.tag_of(o), fact.to_json(o)) for o in record.observations]
    commit = Commit(
        wall_s=record.wall_s,
        optimizers=record.optimizers,
        skipped=record.skipped,
        tensors=len(record.tensor_T),
        width=record.summary_TF.shape[1],
        scalars=len(record.scalars),
        events=len(rows),
        raw=sum(len(block.tensor_R) for block in record.raw),
    )
    return [*rows, (STEP, jsonable.text(commit))]


def _events_batch(numbered: _Numbered, again: Definitions) -> pa.RecordBatch:
    """Return the events of some records.

    The first batch contains the definitions of the batch before `again`. Otherwise the loss of a
    single batch of events would make all statistics of a run unreadable, because their tensors have
    no names.
    """
    firsts = (again, *([()] * (len(numbered) - 1)))
    per_record = [
        _events(record, first) for (_, record), first in zip(numbered, firsts, strict=True)
    ]
    rows = [row for rows in per_record for row in rows]
    batch = [
        *_key_columns(numbered, [len(rows) for rows in per_record]),
        columns.texts([kind for kind, _ in rows]),
        columns.texts([text for _, text in rows]),
    ]
    return pa.record_batch(batch, schema=EVENTS)
