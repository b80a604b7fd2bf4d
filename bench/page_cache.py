"""Page cache of a folder's files: queries, eviction and loading; Linux only."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PIECE_BYTES = 1 << 20
NONE_FRAC, ALL_FRAC = 0.01, 0.95
"""Less and more than these shares count as none and all: some systems take a few pages that lie
idle out of the cache all the time."""


def make_cold(folder: Path) -> None:
    """Remove a folder's files from the page cache; raises RuntimeError if this fails."""
    evict(folder)
    if (cached := cached_frac(folder)) > NONE_FRAC:
        raise RuntimeError(f"{cached:.0%} of {folder} stay in the cache: is it in memory?")


def make_warm(folder: Path) -> None:
    """Have all of a folder's files in the cache; raises RuntimeError where they do not fit."""
    fetch(folder)
    if (cached := cached_frac(folder)) < ALL_FRAC:
        raise RuntimeError(f"the cache keeps {cached:.0%} of {folder}: it takes more memory")


def evict(folder: Path) -> None:
    """Write all files of a folder to the disk, and remove them from the cache."""
    for path in _files(folder):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)  # what is not on the disk yet cannot leave
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def fetch(folder: Path) -> None:
    """Read all files of a folder once through the cache."""
    room = bytearray(PIECE_BYTES)
    for path in _files(folder):
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass


def cached_frac(folder: Path) -> float:
    """Return which share of the pages of a folder's files is in the cache; NaN without any."""
    pages = [_residents(path) for path in _files(folder)]
    return float(np.concatenate(pages).mean()) if pages else float("nan")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)


def _residents(path: Path) -> np.ndarray:
    """Return for each page of a file whether it is cached, without loading any page."""
    system = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        told = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
        view = np.frombuffer(mapped, np.uint8)
        where = (ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapped)))
        failed = system.mincore(*where, ctypes.c_void_p(told.ctypes.data))
        del view
    if failed:
        raise OSError(ctypes.get_errno(), "mincore cannot tell what is cached", str(path))
    return (told & 1).astype(bool)
