"""Compaction of sealed segments: rewritten in place with large, compressed batches.

A segment is replaced with a new one of the same name, with the same rows in the same order. A
process that has the old file open continues to read it. A reader that returns later finds the new
file, and skips the rows that it has already read (see `tailing`). The new file is a draft in the
same folder until it is complete and on the disk. So one of the two is left after a crash at any
time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.store import layout, statistic_columns
from mothtrap.store.durability import sync_folder
from mothtrap.store.sealing import is_sealed
from mothtrap.store.segments import SegmentWriter
from mothtrap.store.tailing import SegmentReader
from mothtrap.store.unpacking import numbers, where_equal
from mothtrap.store.worker_log import AGAIN

TABLES = ("stats", "scalars", "events")
"""Tables that are compacted; whole tensors are not, because most do not become smaller."""
LEAST_BYTES = 1 << 16
"""Minimum size of a segment for compaction; chosen by hand."""
BATCH_ROWS = 1 << 16
"""Approximate maximum number of rows of a batch; chosen by hand: columns of half a megabyte."""
PARTS = 8
"""Approximate number of batches of a small segment; damage to a batch costs only its rows."""
LEAST_BATCH_ROWS = 1 << 5
"""Approximate minimum number of rows of a batch; chosen by hand: an event has about 500 bytes."""
COMPACTED = {b"mothtrap": b"compacted"}
"""Schema metadata of a compacted segment."""
_ERRORS = (OSError, pa.ArrowException, ValueError, KeyError, TypeError)


def compactable(attempt: Path) -> list[Path]:
    """Return the sealed segments of an attempt that are not compacted yet."""
    return [
        path
        for rank in layout.workers(attempt)
        for table in TABLES
        for path in _segments(layout.worker_folder(attempt, rank), table)
        if _is_due(path)
    ]


def compact(path: Path) -> bool:
    """Rewrite a sealed segment; return whether it became smaller.

    A segment is left unchanged if it is damaged, of another version, not writable, or would not
    become smaller.
    """
    draft = path.with_name(f".{path.name}.compacting")
    try:
        return _replace(path, draft)
    except _ERRORS:
        return False
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _replace(path: Path, draft: Path) -> bool:
    before = path.stat()
    batches = _rows(path)
    if not batches:
        return False
    draft.unlink(missing_ok=True)  # left by a process that died
    writer = SegmentWriter(draft, batches[0].schema, "power", compressed=True)
    try:
        for batch in batches:
            writer.append(batch)
    finally:
        writer.seal()
    if draft.stat().st_size >= before.st_size or _count(draft) != sum(map(len, batches)):
        return False
    os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))  # time at which the job last wrote
    os.replace(draft, path)
    sync_folder(path.parent)
    return True


def _rows(path: Path) -> list[pa.RecordBatch]:
    """Return the rows of a segment in the form to write; None if it must be left unchanged."""
    reader = SegmentReader(path)
    found = reader.poll()
    if reader.damage or not reader.done or not found:
        return []
    whole = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
    batch: pa.RecordBatch | None = whole
    if statistic_columns.SUMMARY in whole.schema.names:
        batch = statistic_columns.by_column(whole)
    if batch is None:
        return []
    return list(_pieces(batch.replace_schema_metadata(COMPACTED)))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch where a record begins, because the rows of a record must be in one batch."""
    record_N = numbers(batch.column("record"))
    begins = np.flatnonzero(np.diff(record_N, prepend=-1))
    rows = min(BATCH_ROWS, max(LEAST_BATCH_ROWS, len(batch) // PARTS))
    copies_at = _second_definitions(batch, record_N)
    start = 0
    while start < len(batch):
        place = np.searchsorted(begins, start + rows)
        stop = int(begins[place]) if place < len(begins) else len(batch)
        if start < copies_at < stop:
            stop = copies_at
        yield batch.slice(start, stop - start)
        start = stop


def _second_definitions(batch: pa.RecordBatch, record_N: npt.NDArray[np.int64]) -> int:
    """Return where records define tensors again; these must be in a later batch."""
    if "type" not in batch.schema.names:
        return 0
    again = np.flatnonzero(where_equal(batch.column("type"), AGAIN))
    return int(np.searchsorted(record_N, record_N[again[0]])) if len(again) else 0


def _count(path: Path) -> int:
    """Return the number of readable rows of a segment."""
    reader = SegmentReader(path)
    rows = sum(map(len, reader.poll()))
    return -1 if reader.damage or not reader.done else rows


def _segments(folder: Path, table: str) -> list[Path]:
    return [layout.segment_path(folder, table, seq) for seq in layout.segments(folder, table)]


def _is_due(path: Path) -> bool:
    try:
        if path.lstat().st_size < LEAST_BYTES or not is_sealed(path):
            return False
        with pa.OSFile(str(path)) as file:
            metadata = pa.ipc.open_file(file).schema.metadata or {}
        return not COMPACTED.items() <= metadata.items()
    except _ERRORS:
        return False
