"""Bytes of a file, in memory that is cheap to allocate."""

from __future__ import annotations

import contextlib
import mmap
import sys
from io import FileIO

Data = bytes | mmap.mmap
"""Content of a file: has `find`, `rfind`, slices of bytes, and the buffer protocol."""
HUGE_BYTES = 1 << 21
"""Size of a huge page on most systems."""
LARGE_BYTES = 2 * HUGE_BYTES
"""Size from which huge pages are used; chosen by hand."""


def read_on(file: FileIO, size: int) -> Data:
    """Return the next `size` bytes of a file, or fewer at its end.

    Large amounts are read into huge pages, if Linux provides them: allocating the same memory in
    ordinary pages takes several times as long as reading.

    Raises:
        OSError: the file cannot be read.
    """
    fills_pages = size % mmap.PAGESIZE == 0
    if size < LARGE_BYTES or sys.platform != "linux" or fills_pages:
        # `mmap.find` of CPython 3.11 reads a byte after the end, which crashes if nothing is there.
        return file.read(size)
    room, got = new_pages(size), 0
    with memoryview(room) as view:
        while more := file.readinto(view[got:]):
            got += more
    return room if got == size else room[:got]


def new_pages(size: int) -> mmap.mmap:
    """Return page-aligned memory, in huge pages if available.

    Like other memory, it belongs to this process: writes in a fork are not visible here.
    """
    room = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without huge pages
            room.madvise(mmap.MADV_HUGEPAGE)
    return room
