"""Events of one worker as columns of its committed records, for readers of long runs.

Same content as `worker_reading.EventReader`, but without creating an object for each record. Most
commits differ only in their time; each other text is decoded once. Shape suffixes: N = rows, C =
committed records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core import fact, jsonable
from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.store.alike_texts import alike_but_for_a_number
from mothtrap.store.tailing import READ_BYTES, SegmentTail
from mothtrap.store.unpacking import numbers, slices, where_equal
from mothtrap.store.worker_log import AGAIN, DEFINED, STEP, Commit, Defined

_TIME = b'{"wall_s":'
"""Beginning of the text of a commit, followed by its number, a comma and the rest."""
PIECE_ROWS = 1 << 16
"""Number of rows whose texts are decoded together; chosen by hand: about 20 MB of memory."""
T = TypeVar("T")
Ints = npt.NDArray[np.int64]
_BATCH_ERRORS = (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError)
_COMMIT = functools.partial(jsonable.decode, kind=Commit)
_DEFINED = functools.partial(jsonable.decode, kind=Defined)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventBlock:
    """Consecutive committed records.

    Attributes:
        record_C: their numbers, ascending. step_C, mode_C, mode_step_C: their steps; modes as
            positions in `Mode`.
        wall_s_C: Unix time at which each was closed, seconds.
        commits: distinct commit data of the records, apart from the time.
        which_C: position of each record's data in `commits`.
        defined: tensors and their ids, in order.
        observations: each with the place of its record in the block, in order.
        unread: facts that have not been requested yet, in their stored form.
    """

    record_C: Ints
    step_C: Ints
    mode_C: Ints
    mode_step_C: Ints
    wall_s_C: npt.NDArray[np.float64]
    commits: list[Commit]
    which_C: Ints
    defined: list[tuple[int, TensorInfo]]
    observations: list[tuple[int, Fact]]
    unread: list[str]


class EventColumns:
    """Reads the events of one worker as they arrive.

    Args:
        folder: the worker's folder; need not exist yet.
        unread: types of observations that are passed on in their stored form.
    """

    def __init__(self, folder: Path, unread: frozenset[str] = frozenset()) -> None:
        self._folder, self._unread = folder, unread
        self._tail = SegmentTail(folder, "events", at_once=READ_BYTES)
        self._damage: list[str] = []

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from the segments."""
        return self._tail.bytes_read

    def poll(self) -> Iterator[EventBlock]:
        """Yield the new events, in order."""
        while batches := self._tail.poll():
            is_long = sum(map(len, batches)) >= PIECE_ROWS // 4
            while batches:
                yield from self._blocks(batches.pop(0))
            if is_long:  # otherwise Arrow keeps 100 MB for a million records
                pa.default_memory_pool().release_unused()

    def _blocks(self, batch: pa.RecordBatch) -> Iterator[EventBlock]:
        try:
            for piece in _pieces(batch):
                block = self._block(piece)
                if len(block.record_C):
                    yield block
        except _BATCH_ERRORS as err:
            self._damage.append(f"a batch of events has unknown columns: {err}")

    def damage(self, *, ended: bool) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        pending = self._tail.pending if ended else ()
        return (*self._tail.damage, *self._damage, *pending)

    def _block(self, batch: pa.RecordBatch) -> EventBlock:
        record_N = numbers(batch.column("record"))
        # A record's last row is its commit; if it is another row, the record was never committed.
        is_last_N = np.ones(len(record_N), np.bool_)
        is_last_N[:-1] = np.diff(record_N) != 0
        last_C = np.flatnonzero(is_last_N & where_equal(batch.column("type"), STEP))
        mode_C = _modes(batch.column("mode"))[last_C]
        texts = batch.column("json")
        commits, which_C, wall_s_C = self._commits(texts, last_C)
        known_C = which_C >= 0
        last_C, mode_C = last_C[known_C], mode_C[known_C]
        others = np.flatnonzero(~is_last_N)
        place = np.searchsorted(last_C, others)
        # Rows of committed records: the commit is the next last row.
        ends_N = np.flatnonzero(is_last_N)
        own_last = ends_N[np.searchsorted(ends_N, others)] if len(others) else others
        told = place < len(last_C)
        told[told] = last_C[place[told]] == own_last[told]
        others, place = others[told], place[told]
        defined, observations, unread = self._facts(batch, others, place)
        return EventBlock(
            record_C=record_N[last_C],
            step_C=numbers(batch.column("step"))[last_C],
            mode_C=mode_C,
            mode_step_C=numbers(batch.column("mode_step"))[last_C],
            wall_s_C=wall_s_C[known_C],
            commits=commits,
            which_C=which_C[known_C],
            defined=defined,
            observations=observations,
            unread=unread,
        )

    def _commits(
        self, column: pa.Array, rows: Ints
    ) -> tuple[list[Commit], Ints, npt.NDArray[np.float64]]:
        """Decode commits: distinct ones, index of each record's commit (-1: damaged), and times."""
        commits: list[Commit] = []
        known: dict[bytes, int] = {}
        place_C, wall_s_C = np.full(len(rows), -1, np.int64), np.zeros(len(rows))
        for alike in alike_but_for_a_number(column, rows, _TIME):
            if (commit := self._decode(alike.text, _COMMIT)) is None:
                break
            known[alike.rest] = len(commits)
            place_C[alike.place_C], wall_s_C[alike.place_C] = len(commits), alike.number_C
            commits.append(commit)
        others = np.flatnonzero(place_C < 0)
        for at, text in zip(others.tolist(), slices(column, rows[others]), strict=True):
            head, _, rest = text.partition(b",")
            time_s = _time_s(head)
            place = None if time_s is None else known.get(rest)
            if place is None or time_s is None:
                commit = self._decode(text, _COMMIT)
                place, time_s = -1, 0.0
                if commit is not None:
                    place, time_s = len(commits), commit.wall_s
                    commits.append(commit)
                    known[rest if _time_s(head) is not None else text] = place
            place_C[at], wall_s_C[at] = place, time_s
        return commits, place_C, wall_s_C

    def _facts(
        self, batch: pa.RecordBatch, rows: Ints, place: npt.NDArray[np.intp]
    ) -> tuple[list[tuple[int, TensorInfo]], list[tuple[int, Fact]], list[str]]:
        defined: list[tuple[int, TensorInfo]] = []
        observations: list[tuple[int, Fact]] = []
        unread: list[str] = []
        kinds = [kind.decode() for kind in slices(batch.column("type"), rows)]
        texts = slices(batch.column("json"), rows)
        for kind, text, at in zip(kinds, texts, place.tolist(), strict=True):
            if kind in self._unread:
                unread.append(text.decode())
            elif kind in (DEFINED, AGAIN):
                row = self._decode(text, _DEFINED)
                if row is not None:
                    defined.append((row.id, row.tensor))
            else:
                told = self._decode(text, functools.partial(_fact, kind))
                if told is not None:
                    observations.append((at, told))
        return defined, observations, unread

    def _decode(self, text: bytes, decoder: Callable[[bytes], T]) -> T | None:
        try:
            return decoder(text)
        except (msgspec.DecodeError, UnicodeError) as err:
            self._damage.append(f"{self._folder.name}: an event cannot be decoded: {err}")
            return None


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into pieces of about `PIECE_ROWS`; a record is never divided."""
    if len(batch) < 2 * PIECE_ROWS:
        yield batch
        return
    begins_N = np.flatnonzero(np.diff(numbers(batch.column("record")))) + 1
    places = np.searchsorted(begins_N, np.arange(PIECE_ROWS, len(batch), PIECE_ROWS))
    cuts = begins_N[places[places < len(begins_N)]]
    borders = np.unique([0, *cuts, len(batch)]).tolist()
    for begin, end in pairwise(borders):
        yield batch.slice(begin, end - begin)


def _time_s(head: bytes) -> float | None:
    """Return the time of a commit from the first member of its text, if it is the first member."""
    if not head.startswith(_TIME):
        return None
    try:
        return float(head[len(_TIME) :])
    except ValueError:  # such as "NaN"
        return None


def _fact(kind: str, text: bytes) -> Fact:
    return fact.decode(kind, text.decode())


def _modes(column: pa.Array) -> Ints:
    """Return the position of each mode in `Mode`.

    Raises:
        ValueError: there is no such mode.
    """
    mode_N = np.full(len(column), -1, np.int64)
    for place, mode in enumerate(Mode):
        mode_N[where_equal(column, mode.value)] = place
    if (mode_N < 0).any():
        raise ValueError("a mode is not one of " + ", ".join(mode.value for mode in Mode))
    return mode_N
