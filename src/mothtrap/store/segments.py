"""Append-only segments: Arrow IPC files that can be read while they grow.

A segment is an Arrow IPC file: magic bytes, a stream of one schema and its batches,
a footer. A segment that is being written, or whose writer died, has no footer and is
read as the stream that it is; a sealed one opens in every Arrow reader.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow as pa

from mothtrap.store import sealing
from mothtrap.store.layout import Kind, segment_path, segments

ROLL_BYTES = 64 << 20
"""Size at which a segment is sealed and the next begun: one object-store PUT."""
MAGIC = b"ARROW1\0\0"


class _Sink:
    """Collects what Arrow writes, so that each batch reaches the file in one write."""

    closed = False
    mode = "wb"

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes | memoryview) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def flush(self) -> None:
        """Nothing to do: `take` is the flush."""

    def close(self) -> None:
        """Nothing to do: the writer owns the file."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class SegmentWriter:
    """Writes one new segment file; every append has reached the OS when it returns.

    Nothing is buffered in the process, so `kill -9` loses nothing that was appended.

    Args:
        path: must not exist.
        schema: of every batch.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.schema = schema
        self.size_bytes = 0
        self._batches = 0
        self._seed = 0
        self._sink = _Sink()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._arrow = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), schema)

    def append(self, batch: pa.RecordBatch) -> None:
        """Write one batch.

        Raises:
            OSError: the disk refused; the file ends with the batch before, and this
                writer takes no more.
        """
        if self._file < 0:
            raise ValueError(f"{self.path} is closed: no batch can be appended to it")
        self._arrow.write_batch(batch, custom_metadata={sealing.MARK_KEY: sealing.BLANK_MARK})
        data, head = self._sink.take(), b""
        if not self._batches:
            end = len(MAGIC) + sealing.HEADER_BYTES
            end += int.from_bytes(data[end - 4 : end], "little")
            head, data = data[:end], data[end:]
            self._seed = sealing.schema_seed(head[len(MAGIC) :])
        self._write(head + sealing.seal(data, self._batches, self._seed))
        self._batches += 1

    def seal(self) -> None:
        """Write the footer and close; a second call does nothing."""
        if self._file < 0:
            return
        self._arrow.close()
        data = self._sink.take()
        if self._batches:
            self._write(data)
            os.close(self._file)
            self._file = -1
        else:
            self._abandon()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._abandon()
            raise
        self.size_bytes += len(data)

    def _abandon(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self.size_bytes)
        os.close(self._file)
        self._file = -1
        if not self.size_bytes:
            self.path.unlink(missing_ok=True)

    @property
    def closed(self) -> bool:
        """True after `seal`, or after the disk refused a write."""
        return self._file < 0


class SegmentLog:
    """The segments of one kind in a folder: begins the next one when one is full.

    Args:
        folder: exists; segments in it are left alone, the next number is taken.
        kind: first part of the file names.
        roll_bytes: size at which a segment is sealed.

    Attributes:
        next_seq: the number of the segment to be begun next.
    """

    def __init__(self, folder: Path, kind: Kind, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._folder = folder
        self._kind: Kind = kind
        self._roll_bytes = roll_bytes
        self._writer: SegmentWriter | None = None
        self.next_seq = max(segments(folder, kind), default=-1) + 1

    def append(self, batch: pa.RecordBatch) -> None:
        """Write one batch; raises OSError as `SegmentWriter.append`."""
        writer = self._writer
        if writer is None or writer.closed or not writer.schema.equals(batch.schema):
            self.close()
            path = segment_path(self._folder, self._kind, self.next_seq)
            writer = self._writer = SegmentWriter(path, batch.schema)
            self.next_seq += 1
        writer.append(batch)
        if writer.size_bytes >= self._roll_bytes:
            self.close()

    def close(self) -> None:
        """Seal the segment in writing."""
        if self._writer is not None:
            self._writer.seal()
            self._writer = None
