"""Ring buffer that passes bytes between two processes through shared memory.

The memory has no name and no owner, so the reader gets all written data, even if the writer was
killed. One process writes, and one reads.

    offset 0     written, read (positions in bytes since the start), state, closing, pid of
                 the reader, length of the reader's last words: 8 bytes each
    offset 512   the reader's last words
    offset 4096  the ring: frames of 16 bytes of header (length, 1 for the last of a message,
                 xxh3 of the bytes seeded by the frame's position) and their bytes, each
                 padded to a multiple of 16

A frame exists once `written` is beyond it. Its checksum protects the reader from bytes that are not
visible yet to its processor core.
"""

from __future__ import annotations

import enum
import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

Bytes = npt.NDArray[np.uint8]

_RING_AT = 4096
_WORDS_AT = 512
_MAX_WORDS_BYTES = 2048
_HEADER = struct.Struct("<IIQ")
_ALIGNMENT = 16
_WRITTEN, _READ, _STATE, _CLOSING, _PID, _WORDS = range(6)


class ReaderState(enum.IntEnum):
    """State of the reader."""

    STARTING = 0
    READY = 1
    FAILED = 2
    DONE = 3


class Ring:
    """A ring buffer in shared memory.

    Args:
        file: descriptor of the memory, from `create`.
        size: bytes of the ring.
    """

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(file, _RING_AT + size)
        self._head = np.frombuffer(self._map, np.uint64, 8)
        self._data = np.frombuffer(self._map, np.uint8, size, _RING_AT)

    @staticmethod
    def create(size: int) -> tuple[int, int]:
        """Create the shared memory.

        Args:
            size: minimum size of the ring in bytes; memory is not allocated before it is used.

        Returns:
            Its descriptor, which the caller closes, and the size of the ring.

        Raises:
            OSError: the memory is not available.
        """
        size += -size % mmap.PAGESIZE
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("mothtrap")
            os.ftruncate(file, _RING_AT + size)
        else:
            with tempfile.TemporaryFile(buffering=0) as nameless:
                # A write to a sparse file would kill the process if the disk is full.
                nameless.write(bytes(_RING_AT + size))
                file = os.dup(nameless.fileno())
        try:  # in a process that has closed its standard streams, this must not become one of them
            return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3), size
        finally:
            os.close(file)

    @property
    def used(self) -> int:
        """Return the number of bytes that wait for the reader."""
        return int(self._head[_WRITTEN]) - int(self._head[_READ])

    def frame_bytes(self, size: int) -> int:
        """Return the number of ring bytes that a frame of `size` bytes occupies."""
        return _HEADER.size + size + -size % _ALIGNMENT

    def write(self, parts: Sequence[Bytes], *, last: bool = True) -> bool:
        """Write one frame; return False, without writing, if there is no room.

        Args:
            parts: bytes of the frame, in pieces.
            last: whether the message ends with this frame.
        """
        size = sum(len(part) for part in parts)
        if self.used + self.frame_bytes(size) > self.size:
            return False
        start = int(self._head[_WRITTEN])
        state = xxhash.xxh3_64(seed=start)
        at = start + _HEADER.size
        for part in parts:
            state.update(part.data)
            self._put(at, part)
            at += len(part)
        header = _HEADER.pack(size, last, state.intdigest())
        self._put(start, np.frombuffer(header, np.uint8))
        self._head[_WRITTEN] = start + self.frame_bytes(size)
        return True

    def read(self, limit: int) -> list[tuple[Bytes, bool]]:
        """Return copies of the available frames, each with whether it ends a message.

        Args:
            limit: bytes after which no further frame is begun.
        """
        frames: list[tuple[Bytes, bool]] = []
        start, taken = int(self._head[_READ]), 0
        while start < int(self._head[_WRITTEN]) and taken < limit:
            size, last, checksum = _HEADER.unpack(self._get(start, _HEADER.size).tobytes())
            if self.frame_bytes(size) > int(self._head[_WRITTEN]) - start:
                break
            data = self._get(start + _HEADER.size, size)
            if xxhash.xxh3_64_intdigest(data.data, seed=start) != checksum:
                break
            frames.append((data, bool(last)))
            taken += size
            start += self.frame_bytes(size)
            self._head[_READ] = start
        return frames

    @property
    def state(self) -> ReaderState:
        """Return the state that the reader reports."""
        return ReaderState(int(self._head[_STATE]))

    @property
    def words(self) -> str:
        """Return the reader's error message."""
        end = _WORDS_AT + min(int(self._head[_WORDS]), _MAX_WORDS_BYTES)
        return self._map[_WORDS_AT:end].decode("utf-8", "replace")

    @property
    def reader_pid(self) -> int:
        """Process id of the reader; 0 before it has started."""
        return int(self._head[_PID])

    @property
    def closing(self) -> bool:
        """Return whether the writer has written its last frame."""
        return bool(self._head[_CLOSING])

    def begin(self, pid: int) -> None:
        """Set the reading process."""
        self._head[_PID] = pid

    def enter(self, state: ReaderState, words: str = "") -> None:
        """Set the state of the reader."""
        text = words.encode("utf-8", "backslashreplace")[:_MAX_WORDS_BYTES]
        self._map[_WORDS_AT : _WORDS_AT + len(text)] = text
        self._head[_WORDS] = len(text)
        self._head[_STATE] = state

    def finish(self) -> None:
        """Mark the end of the data."""
        self._head[_CLOSING] = 1

    def _put(self, position: int, part: Bytes) -> None:
        at = position % self.size
        head = part[: self.size - at]
        self._data[at : at + len(head)] = head
        self._data[: len(part) - len(head)] = part[len(head) :]

    def _get(self, position: int, size: int) -> Bytes:
        at = position % self.size
        return np.concatenate(
            [self._data[at : at + size], self._data[: max(0, at + size - self.size)]]
        )
