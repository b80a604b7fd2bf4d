"""Log of whole tensors: finding and reading."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from mothtrap.core.errors import DamagedDataError, ObjectNotFoundError, StoreError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.store.layout import segment_path
from mothtrap.store.long_reads import read_at
from mothtrap.store.long_writes import LONG_BYTES
from mothtrap.store.plain_files import open_plain
from mothtrap.store.raw_log import checksum
from mothtrap.store.remote import read_range
from mothtrap.store.worker_reading import RowReader, StepEvents

Buffer = bytearray | memoryview
MAX_TENSOR_BYTES = 1 << 40
"""Maximum size of a tensor; chosen by hand: a larger size means damage."""
_SURE_BYTES = 1 << 20
"""Size up to which memory is allocated without checking that the file is long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One tensor at one step: its description, and the location of its bytes."""

    record: int
    key: StepKey
    tensor: int
    dtype: str
    shape: tuple[int, ...]
    segment: int
    offset: int
    size: int
    checksum: int


class _IndexRows(RowReader[pa.RecordBatch, list[RawRow]]):
    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def split(self, columns: pa.RecordBatch, start: int, stop: int) -> list[RawRow]:
        return [
            RawRow(
                record=row["record"],
                key=StepKey(step=row["step"], mode=Mode(row["mode"]), mode_step=row["mode_step"]),
                tensor=row["tensor"],
                dtype=row["dtype"],
                shape=tuple(row["shape"]),
                segment=row["segment"],
                offset=row["offset"],
                size=row["size"],
                checksum=row["checksum"],
            )
            for row in columns.slice(start, stop - start).to_pylist()
        ]


@dataclass(slots=True)
class RawIndex:
    """Index of the stored tensors of one worker.

    Args:
        folder: the worker's folder; need not exist yet.
    """

    folder: Path
    _rows: _IndexRows = field(init=False)
    _damage: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._rows = _IndexRows(self.folder, "index")

    def take(self, events: StepEvents) -> Sequence[RawRow]:
        """Return the tensors of a record; call it in the order of records.

        Args:
            events: events of the record, as `EventReader.poll` yields them.
        """
        if not events.commit.raw:
            return ()
        rows = self._rows.take(events.record) or []
        if len(rows) != events.commit.raw:
            self._damage.append(
                f"{self.folder.name}: {events.commit.raw - len(rows)} tensors of step "
                f"{events.key.step} cannot be found"
            )
        return rows

    def damage(self, *, ended: bool = False) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        pending = self._rows.tail.pending if ended else ()
        return (*self._rows.tail.damage, *self._rows.damage, *self._damage, *pending)


def fetch_ahead(wanted: Iterable[tuple[Path, RawRow]]) -> None:
    """Prefetch tensors that will soon be read one by one.

    Args:
        wanted: folders of workers, and rows of their indices. Long tensors are skipped: they are
            read in pieces (`long_reads`), and must not fill the cache.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    by_file = itertools.groupby(wanted, key=lambda each: (each[0], each[1].segment))
    for (folder, segment), found in by_file:
        with contextlib.suppress(OSError, OverflowError):  # damage is reported when they are read
            file = open_plain(_path(folder, segment))
            try:
                for _, row in found:
                    if 0 < row.size < LONG_BYTES:  # 0 would mean the whole file
                        os.posix_fadvise(file, row.offset, row.size, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)


def read_bytes(folder: Path, row: RawRow) -> Buffer:
    """Fetch the bytes of a tensor with one read, into newly allocated memory.

    Args:
        folder: the worker's folder.
        row: row of that worker's index.

    Raises:
        DamagedDataError: the bytes are missing, truncated, or changed.
        StoreError: the bytes are in an object store that cannot be reached.
    """
    path = _path(folder, row.segment)
    if not (0 <= row.size <= MAX_TENSOR_BYTES and row.offset >= 0):
        raise DamagedDataError(f"{_what(row, path)} cannot be read: its index entry is invalid")
    try:
        data = _read_range(path, row.offset, row.size) if row.size else bytearray()
    except StoreError as err:
        if not isinstance(err, ObjectNotFoundError):
            raise
        raise DamagedDataError(f"{_what(row, path)} cannot be read: {err}") from err
    except OSError as err:
        raise DamagedDataError(f"{_what(row, path)} cannot be read: {err}") from err
    found = checksum(
        memoryview(data), record=row.record, tensor=row.tensor, dtype=row.dtype, shape=row.shape
    )
    if len(data) != row.size or found != row.checksum:
        raise DamagedDataError(
            f"{_what(row, path)} is damaged: its {row.size} bytes do not match their checksum; "
            "the rest of the run can still be read"
        )
    return data


def _what(row: RawRow, path: Path) -> str:
    return f"tensor {row.tensor} of step {row.key.step} in {path.parent.name}/{path.name}"


@functools.lru_cache(maxsize=1024)
def _path(folder: Path, segment: int) -> Path:
    return segment_path(folder, "raw", segment)


def _read_range(path: Path, offset: int, size: int) -> Buffer:
    """Read from a file, or from the corresponding object if the file is not on this machine."""
    try:
        if size > _SURE_BYTES and offset + size > path.stat().st_size:
            return bytearray()  # truncated
        return read_at(path, offset, size)
    except FileNotFoundError:
        data = read_range(path, offset, size)
        if data is None:
            raise
        return bytearray(data)
