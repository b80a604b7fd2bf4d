"""Data files that a process has open or mapped at its first step, with digests."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import psutil
import xxhash

from mothtrap.core.ledger import LedgerValue
from mothtrap.core.working_folder import shown

MAX_FILES = 64
WHOLE_BYTES = 2 << 20
"""Maximum size of a file that is read completely; for a larger file, the first and the last half of
this size are read.
"""
MIN_BYTES = 64
CODE = (".so", ".py", ".pyc", ".pyi", ".log", ".lock", ".sock", ".mo", ".ttf", ".ttc", ".db")
SYSTEM = ("/proc/", "/sys/", "/dev/", "/usr/", "/lib", "/etc/", "/run/", "/tmp/pymp-")


def data_files(folder: Path) -> dict[str, LedgerValue]:
    """Describe the data files that this process has open, by path.

    These are files that are open for reading, or mapped into memory, as by `np.memmap` and the
    `datasets` library. Programs, logs, and files in system folders are omitted.

    Args:
        folder: folder of the run, whose files are excluded.
    """
    found: dict[str, LedgerValue] = {}
    for path in _held():
        if len(found) >= MAX_FILES:
            break
        if _is_data(path, folder):
            described = describe(path)
            if described is not None:
                found[shown(path)] = described
    return dict(sorted(found.items()))


def describe(path: str) -> str | None:
    """Describe size, modification time and digest of a file; None if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size < MIN_BYTES:
            return None
        digest = _digest(handle, status.st_size)
    except OSError:
        return None
    finally:
        os.close(handle)
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(status.st_mtime))
    return f"{status.st_size:,} bytes, changed {changed} UTC, {digest}"


def _digest(handle: int, size: int) -> str:
    digest = xxhash.xxh3_64(str(size).encode())
    if size <= WHOLE_BYTES:
        digest.update(os.pread(handle, size, 0))
        return f"xxh3 {digest.hexdigest()}"
    digest.update(os.pread(handle, WHOLE_BYTES // 2, 0))
    digest.update(os.pread(handle, WHOLE_BYTES // 2, size - WHOLE_BYTES // 2))
    return f"xxh3 of both ends {digest.hexdigest()}"


def _held() -> list[str]:
    process = psutil.Process()
    paths: dict[str, None] = {}
    try:
        for opened in process.open_files():
            if getattr(opened, "mode", "r") in ("r", "r+"):
                paths[opened.path] = None
    except (psutil.Error, OSError):
        pass
    for path in _mapped():
        paths[path] = None
    return list(paths)


def _mapped() -> list[str]:
    """Return the paths of mapped files on Linux; on other systems the query can take seconds."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    fields = (line.split(maxsplit=5) for line in lines)
    found = (f[5] for f in fields if len(f) == 6 and f[5].startswith("/") and "x" not in f[1])
    return list(dict.fromkeys(found))


def _is_data(path: str, folder: Path) -> bool:
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts or path.endswith(" (deleted)"):
        return False
    if path.startswith(SYSTEM) or path.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)):
        return False
    name = parts[-1]
    is_code = name.endswith(CODE) or ".so." in name
    return not is_code and not path.startswith(str(folder.absolute()) + os.sep)
