"""Reading segments: sealed, growing, torn or damaged.

Files are read, never mapped, because a mapped file that shrinks kills the process. Data is passed
to Arrow only after its checksum was verified.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from mothtrap.store import sealing
from mothtrap.store.joining import MANY, Found, joined, stretches
from mothtrap.store.layout import segment_path, segments
from mothtrap.store.pages import Data, read_on
from mothtrap.store.plain_files import open_plain
from mothtrap.store.segments import MAGIC

MAX_SEGMENT_BYTES = 1 << 30
"""Maximum size of a segment; chosen by hand: 16 times the size at which segments are sealed."""
READ_BYTES = (8 << 20) - 1
"""Bytes that readers of long tables request at a time; chosen by hand: a whole segment takes twice
its size in memory while it is read. Not a multiple of a page: see `pages.read_on`.
"""
_FOOTER_BYTES = 1 << 20
"""Maximum size of a footer; chosen by hand: a footer has about 30 bytes for each batch."""
THREADED_BYTES = 1 << 20
"""Size from which Arrow decodes with threads. Below it, waking them costs up to 3 ms of processor
time, more than the decoding. Measured on a run of 230 steps.
"""
LARGE_ROWS = 1 << 12
"""Mean number of rows from which batches are not joined, because joining copies all of a segment;
by hand.
"""
LARGE_BYTES = 1 << 18
"""Mean size of messages from which they are parsed one by one, if all columns are read; chosen by
hand.
"""
RowsT = TypeVar("RowsT", pa.Table, pa.RecordBatch)
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, IndexError)


class SegmentReader:
    """Reads one segment from the end of the last poll.

    Args:
        path: path of the file; need not exist yet.
        columns: columns to return, if they exist; None: all.
        at_once: bytes that a poll reads; more if they contain no complete batch.

    Attributes:
        damage: one sentence for each part that could not be read.
        done: True if no more data will be added to this segment.
        pending_bytes: bytes after the last good batch: a batch that is being written, or
            incomplete.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        at_once: int = MAX_SEGMENT_BYTES,
    ) -> None:
        self.path = path
        self._columns = columns
        self._at_once = at_once
        self._unread_bytes = 0
        self.damage: list[str] = []
        self.done = False
        self.pending_bytes = 0
        self._offset = 0
        self._size_seen = -1
        self._expected = 0
        self._seed = 0
        self._schema_message = b""
        self._file_id: tuple[int, int] | None = None
        self._given_rows = 0
        self._skip_rows = 0

    def poll(self) -> list[pa.RecordBatch]:
        """Return intact batches that were added since the last poll; empty if there are none."""
        at_once = self._at_once
        while not self.done and (data := self._read(at_once)):
            before = self._offset
            batches = self._take(data)
            if batches:
                return batches
            if self._offset == before:  # a batch, or a damaged part, is longer than that
                at_once *= 2
        return []

    def _take(self, data: Data) -> list[pa.RecordBatch]:
        """Return the intact batches at the beginning of the data, and advance past them."""
        at = schema_end = 0
        found = Found([], [])
        if not self._schema_message:
            at = schema_end = self._open(data)
        while self._schema_message and not self.done and at < len(data):
            step = self._next(data, at)
            if step is None:
                break
            if step[1]:
                found.starts.append(at)
                found.ends.append(step[0])
            at = step[0]
        self._offset += at
        self.pending_bytes = 0 if self.done else len(data) - at
        return self._unknown(self._parse(data, found, schema_end))

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from the file."""
        return max(self._size_seen, 0)

    def close(self) -> None:
        """Stop reading; pending bytes count as damage."""
        if self.pending_bytes and not self.done:
            self._report(f"its last {self.pending_bytes} bytes contain no complete batch")
        self.done = True

    def _read(self, at_once: int) -> Data:
        """Return the next bytes; empty if there are no new ones.

        Bytes without a complete batch are returned again, together with those after them.
        """
        try:
            with os.fdopen(open_plain(self.path), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                self._note_file((status.st_dev, status.st_ino))
                size = status.st_size
                if size == self._size_seen:
                    return b""
                if size - self._offset > MAX_SEGMENT_BYTES:
                    self._end(f"it is {size} bytes long, expected at most {MAX_SEGMENT_BYTES}")
                    return b""
                rest = max(size - self._offset, 0)
                self._unread_bytes = max(0, rest - at_once)
                self._size_seen = size - self._unread_bytes
                file.seek(self._offset)
                return read_on(file, rest - self._unread_bytes)
        except FileNotFoundError:
            if self.path.is_symlink():
                self._end("it is a broken symbolic link")
            return b""
        except OSError as err:
            self._end(f"it cannot be read: {err.strerror or err}")
            return b""

    def _note_file(self, file_id: tuple[int, int]) -> None:
        """Start over if another file with the same rows replaced this one (`compacting`)."""
        if self._file_id not in (None, file_id):
            self._offset = self._expected = self._seed = 0
            self._size_seen, self._schema_message = -1, b""
            self._skip_rows = self._given_rows
        self._file_id = file_id

    def _unknown(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Leave out the rows that were returned before the file was replaced."""
        found = []
        for batch in batches:
            skipped = min(self._skip_rows, len(batch))
            self._skip_rows -= skipped
            if skipped < len(batch):
                found.append(batch.slice(skipped) if skipped else batch)
        self._given_rows += sum(map(len, found))
        return found

    def _open(self, data: Data) -> int:
        """Read magic bytes and schema; return the offset after them, 0 if they are missing."""
        message, why = _first_message(data)
        if message is None or (message and not why and self._fits(data, message)):
            return self._take_schema(message or b"")
        if self._unread_bytes:
            return 0  # the copy in the footer has not been read
        recovered = self._schema_of_footer(data)
        if recovered and recovered != message:
            self._report(why or "its schema is damaged, and the copy in the footer is used")
        if recovered:
            return self._take_schema(recovered)
        if why:
            self._end(why)
            return 0
        return self._take_schema(message)

    def _take_schema(self, message: bytes) -> int:
        self._schema_message = message
        self._seed = sealing.schema_seed(message)
        return len(MAGIC) + len(message) if message else 0

    def _fits(self, data: Data, schema: bytes) -> bool:
        """Return whether the batch after a schema message was written with that schema."""
        at = len(MAGIC) + len(schema)
        metadata = sealing.metadata_bytes(data, at)
        mark = sealing.find_mark(data, at, metadata) if metadata and metadata > 0 else None
        if mark is None or mark.end > len(data):
            return False
        return sealing.matches(data, at, mark, sealing.schema_seed(schema))

    def _schema_of_footer(self, data: Data) -> bytes:
        """Return the schema message from the footer of a sealed segment if batches match it."""
        if sealing.footer_offset(data[-_FOOTER_BYTES:]) is None:
            return b""
        try:
            schema = pa.ipc.open_file(pa.py_buffer(data)).schema.serialize().to_pybytes()
        except _ARROW_ERRORS:
            return b""
        found = sealing.next_message(data, len(MAGIC), sealing.schema_seed(schema), 0)
        return schema if found is not None else b""

    def _next(self, data: Data, at: int) -> tuple[int, bool] | None:
        """Return the next offset, and whether there is an intact batch at `at`.

        Returns:
            None if the rest is not complete (yet).
        """
        metadata = sealing.metadata_bytes(data, at)
        mark = sealing.find_mark(data, at, metadata) if metadata and metadata > 0 else None
        if (
            mark is not None
            and mark.end <= len(data)
            and mark.number >= self._expected
            and sealing.matches(data, at, mark, self._seed)
        ):
            if mark.number > self._expected:
                self._report(f"batches {self._expected} to {mark.number - 1} are missing")
            self._expected = mark.number + 1
            return mark.end, True
        sealed_at = sealing.footer_offset(data[at:])
        if sealed_at == 0:
            self.done = True
            return len(data), False
        found = sealing.next_message(data, at, self._seed, self._expected)
        if found is not None:
            self._report(f"{found[0] - at} bytes before batch {found[1].number} are damaged")
            self._expected = found[1].number
            return found[0], False
        if sealed_at is not None:
            self._end(f"its last {sealed_at} bytes before the footer are damaged")
            return len(data), False
        return None

    def _parse(self, data: Data, found: Found, schema_end: int) -> list[pa.RecordBatch]:
        """Create batches from intact messages; adjacent messages become one batch.

        Args:
            data: bytes that were read.
            found: positions of messages in `data`, and their marks.
            schema_end: end of the schema message in `data`; 0 if it is not there.
        """
        view, batches = memoryview(data), []
        for part in stretches(found):
            start, end = part.starts[0], part.ends[-1]
            if self._columns is None and end - start >= LARGE_BYTES * len(part.starts):
                batches += self._parse_each(data, part)  # without a copy of all bytes
                continue
            try:
                batch = self._joined(data, part)
                if batch is not None:
                    batches.append(batch)
                    continue
                # Use one stream, so that Arrow reads all messages without Python. If the schema in
                # the file is damaged, the schema of the footer is used.
                if start == schema_end > 0 and view[len(MAGIC) : start] == self._schema_message:
                    stream = view[len(MAGIC) : end]
                else:
                    stream = memoryview(self._schema_message + view[start:end])
                opened = pa.ipc.open_stream(
                    pa.py_buffer(stream), options=self._options(len(stream))
                )
                table = self._chosen(opened.read_all())
                is_large = len(table) >= LARGE_ROWS * max(1, len(table.to_batches()))
                batches += (table if is_large else table.combine_chunks()).to_batches()
            except _ARROW_ERRORS:
                batches += self._parse_each(data, part)
        return batches

    def _joined(self, data: Data, part: Found) -> pa.RecordBatch | None:
        if len(part.starts) < MANY:
            return None
        message = pa.py_buffer(memoryview(data)[part.starts[0] : part.ends[0]])
        return joined(data, part, self._chosen(self._batch(message)), message)

    def _parse_each(self, data: Data, found: Found) -> list[pa.RecordBatch]:
        batches = []
        for start, end in zip(*found, strict=True):
            try:
                batch = self._batch(pa.py_buffer(memoryview(data)[start:end]))
                batches.append(self._chosen(batch))
            except _ARROW_ERRORS as err:
                mark = sealing.find_mark(data, start, sealing.metadata_bytes(data, start) or 0)
                self._report(f"batch {mark.number if mark else '?'} cannot be read: {err}")
        return batches

    def _options(self, size: int) -> pa.ipc.IpcReadOptions:
        """Return the columns to decompress, and whether to use threads."""
        threads = size >= THREADED_BYTES
        if self._columns is None:
            return pa.ipc.IpcReadOptions(use_threads=threads)
        names = pa.ipc.read_schema(pa.py_buffer(self._schema_message)).names
        wanted = [place for place, name in enumerate(names) if name in self._columns]
        return pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=threads)

    def _batch(self, message: pa.Buffer) -> pa.RecordBatch:
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema_message))
        return pa.ipc.read_record_batch(pa.ipc.read_message(message), schema)

    def _chosen(self, rows: RowsT) -> RowsT:
        if self._columns is None:
            return rows
        return rows.select([name for name in rows.schema.names if name in self._columns])

    def _end(self, why: str) -> None:
        self._report(why)
        self.done = True

    def _report(self, why: str) -> None:
        self.damage.append(f"{self.path.parent.name}/{self.path.name}: {why}")


def _first_message(data: Data) -> tuple[bytes | None, str]:
    """Return the schema message of a segment (None if not written yet), and its fault."""
    start = len(MAGIC)
    metadata = sealing.metadata_bytes(data, start)
    if data[:start] != MAGIC[: len(data)]:
        return b"", "it does not begin like an Arrow file"
    if metadata is None:
        return None, ""
    if metadata <= 0:
        return b"", "its schema cannot be read"
    end = start + sealing.HEADER_BYTES + metadata
    return (data[start:end], "") if end <= len(data) else (None, "")


class SegmentTail:
    """Reads all segments of one kind in a folder, in order, as they grow.

    Args:
        folder: folder of the segments; need not exist yet.
        kind: kind of the segments.
        columns, at_once: as for `SegmentReader`.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        columns: Sequence[str] | None = None,
        at_once: int = MAX_SEGMENT_BYTES,
    ) -> None:
        self._folder = folder
        self._columns = columns
        self._at_once = at_once
        self._kind: str = kind
        self._seq = -1
        self._reader: SegmentReader | None = None
        self._damage: list[str] = []
        self._later: deque[int] = deque()
        self._bytes_before = 0

    def poll(self) -> list[pa.RecordBatch]:
        """Return new batches, from at most one segment; empty without new data."""
        while True:
            # Search for the next segment first: once it exists, this one no longer grows.
            if not self._later:
                found = segments(self._folder, self._kind)
                self._later.extend(seq for seq in found if seq > self._seq)
            if self._reader is not None:
                batches = self._reader.poll()
                if batches:
                    return batches
            if not self._later:
                return []
            self._move_to(self._later.popleft())

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read from all segments."""
        return self._bytes_before + (self._reader.bytes_read if self._reader else 0)

    @property
    def damage(self) -> tuple[str, ...]:
        """Return sentences about data that could not be read."""
        return (*self._damage, *(self._reader.damage if self._reader else ()))

    @property
    def pending(self) -> tuple[str, ...]:
        """Return the damage that counts once the writer is known to be dead."""
        reader = self._reader
        if reader is None or reader.done or not reader.pending_bytes:
            return ()
        where = f"{reader.path.parent.name}/{reader.path.name}"
        return (f"{where}: its last {reader.pending_bytes} bytes contain no complete batch",)

    def _move_to(self, seq: int) -> None:
        if self._reader is not None:
            self._reader.close()
            self._damage += self._reader.damage
            self._bytes_before += self._reader.bytes_read
        if seq > self._seq + 1:
            name = segment_path(self._folder, self._kind, self._seq + 1).name
            self._damage.append(f"{self._folder.name}/{name}: the segment is missing")
        self._seq = seq
        path = segment_path(self._folder, self._kind, seq)
        self._reader = SegmentReader(path, self._columns, self._at_once)
