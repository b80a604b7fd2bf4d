"""Rows of one kind of segments that belong to committed records, read once, in columns.

Shape suffixes: N = rows, C = committed records, P = parts of a batch: the rows of one
record, K = rows that are kept.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core.window import Ints
from mothtrap.reader.files.commits import Commits
from mothtrap.store import columns
from mothtrap.store.tailing import READ_BYTES, SegmentTail
from mothtrap.store.unpacking import numbers

SMALL_ROWS = 1 << 14
"""Maximum size of pieces that are joined; chosen by hand: joining costs less than many pieces."""
_BATCH_ERRORS = (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError)


class Rows:
    """Consecutive rows of committed records.

    Attributes:
        commit_N: int64, ascending: index of each row's record in the worker's `Commits`.
    """

    __slots__ = ("commit_N",)

    def __init__(self, commit_N: Ints) -> None:
        self.commit_N = commit_N

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers, shape (N,), read-only."""
        raise NotImplementedError

    def joined(self, later: Self) -> Self | None:
        """Return these rows joined with the following rows; None if they cannot be joined."""
        raise NotImplementedError

    def rows_of(self, commit: int) -> slice:
        """Return the rows of one committed record."""
        start, stop = self.commit_N.searchsorted((commit, commit + 1)).tolist()
        return slice(start, stop)


class Piece(Rows):
    """Rows as stored, in `batch`."""

    __slots__ = ("_columns", "batch")

    def __init__(self, commit_N: Ints, batch: pa.RecordBatch) -> None:
        super().__init__(commit_N)
        self.batch = batch
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers, shape (N,), read-only."""
        if name not in self._columns:
            self._columns[name] = numbers(self.batch.column(name))
        return self._columns[name]

    def joined(self, later: Self) -> Self | None:
        """Return these rows joined with the following rows; None if they cannot be joined."""
        if self.batch.schema != later.batch.schema:
            return None
        return type(self)(
            np.concatenate((self.commit_N, later.commit_N)),
            pa.Table.from_batches([self.batch, later.batch]).combine_chunks().to_batches()[0],
        )


RowsT = TypeVar("RowsT", bound=Rows)


class CommittedRows:
    """Reads the rows of a worker's segments, and returns the rows of committed records.

    A record with missing rows is omitted, and counted in `damage`.

    Args:
        folder: the worker's folder; need not exist yet.
        kind: kind of the segments: `stats` (see `statistic_rows`), `scalars` or `index`.
        promise: column of `Commits` with the number of rows of a record.
        keep: columns of the segments to return.
        width_of: returns the number of values in each row of a batch, if commits record it.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        promise: str,
        keep: Sequence[str],
        width_of: Callable[[pa.RecordBatch], int] | None = None,
    ) -> None:
        self._width_of = width_of
        self._folder = folder
        self._kind: str = kind
        self._promise = promise
        self._keep = list(keep)
        self._tail = SegmentTail(folder, kind, ("record", *keep), READ_BYTES)
        self._ahead: list[pa.RecordBatch] = []
        self._damage: list[str] = []
        self._whole = 0

    def poll(self, commits: Commits) -> Iterator[Piece]:
        """Yield the committed rows that were added since the last poll."""
        waiting, self._ahead = self._ahead, []
        for batch in waiting:
            yield from self._take(batch, commits)
        while batches := self._tail.poll():
            for batch in batches:
                yield from self._take(batch, commits)

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from the segments."""
        return self._tail.bytes_read

    def damage(self, commits: Commits, *, ended: bool) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        pending = self._tail.pending if ended else ()
        missing = int(np.count_nonzero(commits.promised(self._promise))) - self._whole
        lacking = f"{self._folder.name}: {missing} steps lack {self._promise} because of damage"
        return (*self._tail.damage, *self._damage, *pending, *((lacking,) if missing > 0 else ()))

    def _take(self, batch: pa.RecordBatch, commits: Commits) -> Iterator[Piece]:
        try:
            record_N = numbers(batch.column("record"))
            batch = self._split_ahead(batch, record_N, commits)
            piece = self._committed(batch, record_N[: batch.num_rows], commits)
        except _BATCH_ERRORS as err:
            self._damage.append(f"a batch of {self._kind} has unknown columns: {err}")
            return
        if len(piece.commit_N):
            yield piece

    def _split_ahead(
        self, batch: pa.RecordBatch, record_N: Ints, commits: Commits
    ) -> pa.RecordBatch:
        """Set aside the rows whose commit has not been read yet; return the others."""
        last = int(commits.records[-1]) if len(commits) else -1
        known = int(np.searchsorted(record_N, last, side="right"))
        if known < len(record_N):
            self._ahead.append(batch.slice(known))
        return batch.slice(0, known)

    def _committed(self, batch: pa.RecordBatch, record_N: Ints, commits: Commits) -> Piece:
        batch = self._kept(batch)
        starts_P = np.flatnonzero(np.diff(record_N, prepend=-1))
        length_P = np.diff(starts_P, append=len(record_N))
        commit_P = commits.find(record_N[starts_P])
        whole_P = (commit_P >= 0) & (commits.promised(self._promise)[commit_P] == length_P)
        if self._width_of is not None:
            whole_P &= commits.widths[commit_P] == self._width_of(batch)
        self._whole += int(np.count_nonzero(whole_P))
        commit_N = np.repeat(commit_P, length_P)
        if not whole_P.all():
            keep_K = np.flatnonzero(np.repeat(whole_P, length_P))
            batch, commit_N = batch.take(columns.numbers(keep_K)), commit_N[keep_K]
        return Piece(commit_N, batch)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns to return; KeyError if a column does not exist."""
        return batch.select(self._keep)


def piece_of(pieces: Sequence[RowsT], commit: int) -> RowsT | None:
    """Return the piece that may contain the rows of a committed record; O(log n)."""
    place = bisect.bisect_right(pieces, commit, key=lambda piece: piece.commit_N[0])
    return pieces[place - 1] if place else None


def append(pieces: list[RowsT], piece: RowsT) -> None:
    """Append a piece, merging it with its neighbors to keep the number of pieces small.

    Amortized O(log n) copies per row: a piece is merged only with pieces that are at most as long.
    """
    while pieces and len(pieces[-1].commit_N) <= len(piece.commit_N) < SMALL_ROWS:
        joined = pieces[-1].joined(piece)
        if joined is None:
            break
        pieces.pop()
        piece = joined
    pieces.append(piece)
