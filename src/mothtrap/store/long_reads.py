"""Long reads of a file: out of the cache of the operating system, or past it.

What was written past the cache is not in it (`long_writes`), and reading it through the cache
costs as much processor time again. What is there is taken from there.
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
"""Requests that a disk is given at a time: with one it idles between two. Measured on a virtual
disk: 1.5 GB/s with these, 0.9 with one of 16 MB."""
READ_BYTES: Final = 1 << 30
"""Most bytes of one read; Linux returns no more than 2 GiB."""


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
    begin = -room.ctypes.data % HUGE_BYTES  # else both ends get small pages
    return room[begin : begin + size].data


def _is_cached(file: int, offset: int) -> bool:
    """Return whether the page at an offset is in the cache, so that others will be, too."""
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # the question fetches nothing
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError:  # a file system without this information
        return True
    finally:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)


def _past_cache(path: Path, room: memoryview, offset: int) -> int:
    """Read from the disk into a room of whole blocks; return how many bytes from its begin on."""
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
