"""Long reads of a file, from the operating system's cache or bypassing it.

Data that bypassed the cache when it was written (`long_writes`) is not cached, and reading it
through the cache takes as much processor time as writing it. Cached data is read from the cache.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from mothtrap.store.long_writes import BLOCK, CANNOT, LONG_BYTES, takes_past_cache
from mothtrap.store.pages import HUGE_BYTES, new_pages
from mothtrap.store.plain_files import open_plain

THREADS, PIECE_BYTES = 8, 1 << 21
"""Number and size of concurrent requests to a disk, which would idle between single requests.
Measured on a virtual disk: 1.5 GB/s with these, 0.9 with a single request of 16 MB.
"""
READ_BYTES: Final = 1 << 30
"""Maximum size of one read; Linux returns at most 2 GiB."""


def read_at(path: Path, offset: int, size: int) -> memoryview:
    """Return bytes of a file in newly allocated memory; fewer if the file ends earlier.

    Raises:
        OSError: the file cannot be read.
    """
    before = offset % BLOCK if size >= LONG_BYTES else 0
    room = _room(before + size)
    file = open_plain(path)
    try:
        got = 0
        long = size >= LONG_BYTES and takes_past_cache(path.parent)
        if long and not _is_cached(file, offset + size // 2):
            got = max(0, min(_past_cache(path, room, offset - before) - before, size))
        while got < size:
            left = room[before + got : before + size]
            more = os.preadv(file, [left[:READ_BYTES]], offset + got)
            if not more:
                break
            got += more
    finally:
        os.close(file)
    return room[before : before + got]


def _room(size: int) -> memoryview:
    """Return memory of at least this size; large memory begins at a huge page."""
    if size < LONG_BYTES:
        return np.empty(size, np.uint8).data
    size = -(-size // BLOCK) * BLOCK
    room = np.frombuffer(new_pages(size + HUGE_BYTES), np.uint8)
    begin = -room.ctypes.data % HUGE_BYTES  # otherwise both ends get small pages
    return room[begin : begin + size].data


def _is_cached(file: int, offset: int) -> bool:
    """Return whether the page at an offset is cached, so that its neighbors probably are."""
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # this query does not load the page
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError:  # a file system without this information
        return True
    finally:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)


def _past_cache(path: Path, room: memoryview, offset: int) -> int:
    """Read whole blocks from the disk into memory; return the number of bytes read."""
    pieces = range(0, len(room), PIECE_BYTES)
    try:
        file = open_plain(path, os.O_DIRECT)
    except OSError:
        return 0

    def read(at: int) -> int:
        try:
            return os.preadv(file, [room[at : at + PIECE_BYTES]], offset + at)
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
