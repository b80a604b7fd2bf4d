"""Append-only segments: Arrow IPC files that can be read while they grow.

A segment is an Arrow IPC file: magic bytes, a stream of one schema and its batches, and a footer. A
segment that is being written, or whose writer died, has no footer and is read as a stream. A sealed
segment can be opened by every Arrow reader.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from mothtrap.store import sealing
from mothtrap.store.durability import Durability, sync_file, sync_folder
from mothtrap.store.layout import segment_path, segments
from mothtrap.store.long_writes import LongWrites
from mothtrap.store.own_descriptors import OwnDescriptor
from mothtrap.store.sealing import Bytes

ROLL_BYTES = 64 << 20
"""Size at which a segment is sealed and the next segment begins: one object-store PUT."""
MAGIC = b"ARROW1\0\0"


_WRITE_BYTES = 1 << 17
"""Size of one write. Measured on Linux 6.18, ext4, in a virtual machine: 10 MB take 2.5 to 20 ms in
one write, and always 3.4 ms in pieces of this size, because the kernel then needs no large free
pages.
"""
_SMALL_BYTES = 1 << 16
"""Maximum size of parts that are copied together; larger parts are written directly."""


class _Sink:
    """Collects Arrow's output, so that each batch reaches the file in one write."""

    closed = False
    mode = "wb"

    def __init__(self) -> None:
        self._parts: list[Bytes] = []
        self._small = False

    def write(self, data: Bytes) -> int:
        size = memoryview(data).nbytes
        if size > _SMALL_BYTES:
            self._parts.append(data)
            self._small = False
        elif self._small:
            self._parts[-1] += bytes(data)
        else:
            self._parts.append(bytearray(data))
            self._small = True
        return size

    def flush(self) -> None:
        """Do nothing, because `take` flushes."""

    def close(self) -> None:
        """Do nothing, because the writer owns the file."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def take(self) -> list[Bytes]:
        parts, self._parts, self._small = self._parts, [], False
        return parts


def _pieces(parts: Sequence[Bytes]) -> Iterator[memoryview]:
    """Split parts to the size of a write; consecutive small parts are combined."""
    small = bytearray()
    for part in parts:
        view = memoryview(part).cast("B")
        if len(small) + len(view) <= _WRITE_BYTES:
            small += view
            continue
        if small:
            yield memoryview(small)
            small = bytearray()
        for at in range(0, len(view), _WRITE_BYTES):
            yield view[at : at + _WRITE_BYTES]
    if small:
        yield memoryview(small)


class SegmentWriter:
    """Writes one new segment file; each append has reached the OS when it returns.

    The process buffers no data, so `kill -9` loses no appended data.

    Args:
        path: path that must not exist.
        schema: schema of every batch.
        durability: `power` syncs the file before it is closed.
        marks_body: whether the marks of batches cover their bodies, see `sealing`.
        long_writes: chooses the faster method for long appends in this folder.
        compressed: whether columns are compressed with zstd.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        durability: Durability = "crash",
        *,
        marks_body: bool = True,
        long_writes: LongWrites | None = None,
        compressed: bool = False,
    ) -> None:
        self.path = path
        self.schema = schema
        self.size_bytes = 0
        self._durability = durability
        self._marks_body = marks_body
        self._long_writes = long_writes or LongWrites(path.parent)
        self._synced_bytes = 0
        self._batches = 0
        self._seed = 0
        self._sink = _Sink()
        self._file = OwnDescriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        # With one thread, because a launcher must not take the processors of the job.
        options = pa.ipc.IpcWriteOptions(
            compression="zstd" if compressed else None, use_threads=False
        )
        self._arrow = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), schema, options=options)

    def append(self, *batches: pa.RecordBatch) -> int:
        """Write batches, all or none.

        Returns:
            The offset in the file after the last byte.

        Raises:
            OSError: the disk rejected the write; the file ends with the data appended earlier, and
                this writer accepts no more data.
        """
        if self._file.closed:
            raise ValueError(f"{self.path} is closed: no batch can be appended to it")
        self._write([part for batch in batches for part in self._sealed(batch)])
        return self.size_bytes

    def _sealed(self, batch: pa.RecordBatch) -> list[Bytes]:
        """Serialize a batch with its mark; the first batch follows the schema."""
        self._arrow.write_batch(batch, custom_metadata={sealing.MARK_KEY: sealing.BLANK_MARK})
        parts = self._sink.take()
        head: list[Bytes] = []
        if not self._batches:
            first = bytes(parts[0])
            end = len(MAGIC) + sealing.HEADER_BYTES
            end += int.from_bytes(first[end - 4 : end], "little")
            head, parts[0] = [first[:end]], first[end:]
            self._seed = sealing.schema_seed(first[len(MAGIC) : end])
        sealed = sealing.seal(parts, self._batches, self._seed, with_body=self._marks_body)
        self._batches += 1
        return [*head, *sealed]

    def seal(self) -> None:
        """Write the footer and close; a second call does nothing."""
        if self._file.closed:
            return
        self._arrow.close()
        parts = self._sink.take()
        if self._batches:
            self._write(parts)
            if self._durability == "power":
                self.sync()
            self._file.close()
        else:
            self._abandon()

    def sync(self) -> None:
        """Sync the appended data and the file's name to disk; raises OSError."""
        if self._file.closed or self._synced_bytes == self.size_bytes:
            return
        sync_file(self._file.number())
        if not self._synced_bytes:
            sync_folder(self.path.parent)
        self._synced_bytes = self.size_bytes

    def _write(self, parts: Sequence[Bytes]) -> None:
        try:
            self._long_writes.append(self.path, self.size_bytes, parts, self._write_through)
        except OSError:
            self._abandon()
            raise
        self.size_bytes += sum(memoryview(part).nbytes for part in parts)

    def _write_through(self, parts: Sequence[Bytes]) -> None:
        for piece in _pieces(parts):
            written = 0
            while written < len(piece):
                written += os.write(self._file.number(), piece[written:])

    def _abandon(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file.number(), self.size_bytes)
        self._file.close()
        if not self.size_bytes:
            self.path.unlink(missing_ok=True)

    @property
    def closed(self) -> bool:
        """True after `seal`, or after the disk rejected a write."""
        return self._file.closed


class SegmentLog:
    """The segments of one kind in a folder; begins the next segment when the current one is full.

    Args:
        folder: existing folder; segments in it are not changed, and the next number is used.
        kind: prefix of the file names.
        roll_bytes: size at which a segment is sealed.
        durability: `power` syncs sealed segments.
        marks_body: as for `SegmentWriter`.

    Attributes:
        next_seq: number of the next segment.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        *,
        roll_bytes: int = ROLL_BYTES,
        durability: Durability = "crash",
        marks_body: bool = True,
    ) -> None:
        self._folder = folder
        self._durability: Durability = durability
        self._marks_body = marks_body
        self._kind: str = kind
        self._roll_bytes = roll_bytes
        self._writer: SegmentWriter | None = None
        self._long_writes = LongWrites(folder)
        self._closed_bytes = 0
        self.next_seq = max(segments(folder, kind), default=-1) + 1

    def append(self, *batches: pa.RecordBatch) -> tuple[int, int]:
        """Write batches of one schema, all or none; raises OSError like `SegmentWriter.append`.

        Returns:
            The number of the segment, and the offset in it after the batches.
        """
        writer, schema = self._writer, batches[0].schema
        if writer is None or writer.closed or not writer.schema.equals(schema):
            self.close()
            path = segment_path(self._folder, self._kind, self.next_seq)
            writer = self._writer = SegmentWriter(
                path,
                schema,
                self._durability,
                marks_body=self._marks_body,
                long_writes=self._long_writes,
            )
            self.next_seq += 1
        try:
            end = writer.append(*batches)
        except OSError:
            if not writer.path.exists():  # nothing was written, so a later segment takes the number
                self.next_seq -= 1
            raise
        if writer.size_bytes >= self._roll_bytes:
            self.close()
        return self.next_seq - 1, end

    def sync(self) -> None:
        """Sync the appended data to disk; raises OSError."""
        if self._writer is not None:
            self._writer.sync()

    @property
    def size_bytes(self) -> int:
        """Return the size of the current segment."""
        return self._writer.size_bytes if self._writer is not None else 0

    @property
    def written_bytes(self) -> int:
        """Return the size of all segments written by this log."""
        return self._closed_bytes + self.size_bytes

    def close(self) -> None:
        """Seal the current segment."""
        if self._writer is not None:
            self._writer.seal()
            self._closed_bytes += self._writer.size_bytes
            self._writer = None
