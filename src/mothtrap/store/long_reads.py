"""Long reads of a file: out of the cache of the operating system, or past it.

What was written past the cache is not in it (`long_writes`), and reading it through the cache
costs as much processor time again. What is there is taken from there.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from mothtrap.store.long_writes import BLOCK, CANNOT, LONG_BYTES, takes_past_cache

THREADS, PIECE_BYTES = 8, 1 << 21
"""Requests that a disk is given at a time: with one it idles between two. Measured on a virtual
disk: 1.5 GB/s with these, 0.9 with one of 16 MB."""
READ_BYTES: Final = 1 << 30
"""Most bytes of one read; Linux returns no more than 2 GiB."""


def read_at(path: Path, offset: int, size: int) -> memoryview:
    """Return bytes of a file, in memory of the caller's own; fewer where it ends before.

    Raises:
        OSError: the file cannot be read.
    """
    before = offset % BLOCK
    room = _room(before + size)[: before + size]
    file = os.open(path, os.O_RDONLY)
    try:
        got = 0
        long = size >= LONG_BYTES and takes_past_cache(path.parent)
        if long and not _is_cached(file, offset + size // 2):
            got = max(got, _past_cache(path, room, offset - before) - before)
        while got < size:
            more = os.preadv(file, [room[before + got :][:READ_BYTES]], offset + got)
            if not more:
                break
            got += more
    finally:
        os.close(file)
    return room[before : before + got]


def _room(size: int) -> memoryview:
    """Memory of whole blocks that begins at one; in huge pages where there are such."""
    if size < LONG_BYTES:
        return memoryview(bytearray(size))
    room = mmap.mmap(-1, -(-size // BLOCK) * BLOCK)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system that was built without them
            room.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(room)


def _is_cached(file: int, offset: int) -> bool:
    """Whether the page at an offset is in the cache, so that others will be, too."""
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # the question fetches nothing
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError:  # a file system that cannot tell
        return True
    finally:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)


def _past_cache(path: Path, room: memoryview, offset: int) -> int:
    """Read from the disk into a room of whole blocks; return how many bytes from its begin on."""
    whole = memoryview(room.obj)  # to the end of its last block
    pieces = range(0, len(room), PIECE_BYTES)
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return 0

    def read(at: int) -> int:
        try:
            return os.preadv(file, [whole[at : at + PIECE_BYTES]], offset + at)
        except OSError as err:
            if err.errno not in CANNOT:
                raise
            return 0

    try:
        with ThreadPoolExecutor(min(THREADS, len(pieces))) as threads:
            for at, got in zip(pieces, threads.map(read, pieces), strict=True):
                if got < min(PIECE_BYTES, len(room) - at):
                    return at + got
    finally:
        os.close(file)
    return len(room)
