"""Long appends, through the operating system's cache or bypassing it, whichever is faster.

The cache accepts data immediately, even if the disk is slow. But it needs a page for every 4 kB: in
a virtual machine (Linux 6.18, ext4) this took 2.8 ms of processor time per megabyte, thirty times
as long as the disk itself. Data that bypasses the cache is also in the file when the write returns,
for every process that reads it, and after the end of this process.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mothtrap.store.sealing import Bytes

LONG_BYTES: Final = 1 << 20
"""Size of an append from which the method makes a difference. Chosen by hand."""
TRY_AGAIN: Final = 64
"""Number of long appends between two tries of the slower method, because the speed of disks
changes.
"""
SMOOTHING: Final = 0.3
"""Weight of the newest time in the running mean; chosen by hand."""
FILE_SYSTEMS: Final = frozenset({"ext4", "xfs"})
"""File systems known to bypass the cache correctly; on others, the cache is used."""
BLOCK: Final = 4096
"""Alignment of writes that bypass the cache, in the file and in memory."""
_STAGE_BYTES: Final = 1 << 20
CANNOT: Final = (errno.EINVAL, errno.ENOTSUP)

Stage = npt.NDArray[np.uint8]


class LongWrites:
    """Appends large data to files of one folder, remembering which method is faster.

    Args:
        folder: folder of the files.
        clock: returns seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._folder, self._clock = folder, clock
        self._can_pass: bool | None = None
        self._s_per_byte: dict[bool, float] = {}
        self._count = 0
        self._stage: Stage | None = None

    def append(
        self,
        path: Path,
        at: int,
        parts: Sequence[Bytes],
        through_cache: Callable[[Sequence[Bytes]], None],
    ) -> None:
        """Append parts to a file.

        Args:
            path: path of the file.
            at: current size of the file.
            parts: data to append.
            through_cache: appends through the cache.

        Raises:
            OSError: the disk rejected the write; a part may have been written.
        """
        size = sum(memoryview(part).nbytes for part in parts)
        passes = size >= LONG_BYTES and self._chooses_to_pass()
        began = self._clock()
        rest = self._pass(path, at, parts, through_cache) if passes else parts
        if rest:
            through_cache(rest)
        if size >= LONG_BYTES and self._can_pass:
            self._update_speed(passes, (self._clock() - began) / size)

    def _chooses_to_pass(self) -> bool:
        if self._can_pass is None:
            self._can_pass = takes_past_cache(self._folder)
        if not self._can_pass or len(self._s_per_byte) < 2:
            return self._can_pass and True not in self._s_per_byte
        self._count += 1
        faster = self._s_per_byte[True] < self._s_per_byte[False]
        return faster if self._count % TRY_AGAIN else not faster

    def _update_speed(self, passed: bool, s_per_byte: float) -> None:
        known = self._s_per_byte.get(passed, s_per_byte)
        self._s_per_byte[passed] = known + SMOOTHING * (s_per_byte - known)

    def _pass(
        self,
        path: Path,
        at: int,
        parts: Sequence[Bytes],
        through_cache: Callable[[Sequence[Bytes]], None],
    ) -> Sequence[Bytes]:
        """Write whole blocks, bypassing the cache; return the remaining bytes."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_DIRECT)
        except OSError:  # e.g. too many open files; `through_cache` has its file open already
            self._can_pass = False
            return parts
        if self._stage is None:
            # begins at a page boundary
            self._stage = np.frombuffer(mmap.mmap(-1, _STAGE_BYTES), np.uint8)
        source, stage = _Source(parts), self._stage
        head = -at % BLOCK
        try:
            if head:
                through_cache([source.read(stage[:head]).tobytes()])
                at += head
            while len(piece := source.read(stage)):
                whole = len(piece) // BLOCK * BLOCK
                done = _write_at(file, piece[:whole], at)
                at += done
                if done < len(piece):
                    self._can_pass = self._can_pass and done == whole
                    return [piece[done:].tobytes(), *source.rest()]
        finally:
            os.close(file)
        return []


class _Source:
    """Reads several parts as if they were one part."""

    def __init__(self, parts: Sequence[Bytes]) -> None:
        self._parts = [np.frombuffer(memoryview(part).cast("B"), np.uint8) for part in parts]
        self._parts.reverse()

    def read(self, stage: Stage) -> Stage:
        """Fill `stage` with the available data; return the filled part."""
        filled = 0
        while self._parts and filled < len(stage):
            part = self._parts.pop()
            taken = part[: len(stage) - filled]
            np.copyto(stage[filled : filled + len(taken)], taken)  # releases the interpreter lock
            filled += len(taken)
            if len(taken) < len(part):
                self._parts.append(part[len(taken) :])
        return stage[:filled]

    def rest(self) -> list[Bytes]:
        """Return the bytes that were not read."""
        return [part.data for part in reversed(self._parts)]


def _write_at(file: int, piece: Stage, at: int) -> int:
    """Return the number of bytes written; fewer if the file system does not support this."""
    done = 0
    while done < len(piece):
        try:
            done += os.pwrite(file, piece[done:].data, at + done)
        except OSError as err:
            if err.errno in CANNOT:
                break
            raise
    return done


@functools.lru_cache(maxsize=256)
def takes_past_cache(folder: Path) -> bool:
    """Return whether files in a folder can bypass the page cache when written and read."""
    return hasattr(os, "O_DIRECT") and file_system(folder) in FILE_SYSTEMS


def file_system(folder: Path) -> str:
    """Return the file system type of a folder, empty if unknown."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        fields, _, about = line.partition(" - ")
        if fields.split()[2] == number:
            return about.split()[0]
    return ""
