"""Limit on the total size of this machine's mirrors; the least recently used are removed first.

A process that reads a mirror holds a shared lock on a file in it. A mirror without a lock may be
removed, and is fetched again when it is requested.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
import weakref
from contextlib import suppress
from pathlib import Path

from mothtrap.core.config import load_config
from mothtrap.core.errors import ConfigError
from mothtrap.store.remote import mirrors_folder
from mothtrap.store.retention import GONE, StoredRun, measure, sweep

FRESH_S = 60.0
"""A mirror that was used within this time is kept, because it is not locked between finding a run
and reading it. Chosen by hand.
"""
TRIES = 100
"""Number of attempts to use a mirror that is being removed; chosen by hand."""
_LOCK = ".in-use"


class Use:
    """Use of a mirror, which is not removed while this object exists.

    If the file system has no locks, mirrors are neither locked nor removed.

    Args:
        folder: folder of the run; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = folder / _LOCK
        file = _shared(self._lock)
        if file is not None:
            weakref.finalize(self, os.close, file)
        self.mark()

    def mark(self) -> None:
        """Record that the mirror is being used."""
        with suppress(OSError):
            os.utime(self._lock)


def keep_within(limit_bytes: float) -> list[Path]:
    """Remove mirrors, least recently used first, until the others fit.

    Mirrors that a process is reading, or that were used within `FRESH_S`, stay.

    Args:
        limit_bytes: limit on the total size of all mirrors of this machine.

    Returns:
        The runs' folders that were removed.
    """
    place = mirrors_folder()
    sweep(place)
    runs = [path for path in place.glob("*/*") if path.is_dir() and not path.is_symlink()]
    mirrors = sorted(map(_measured, runs), key=lambda mirror: mirror.touched_s)
    total = sum(mirror.size_bytes for mirror in mirrors)
    removed = []
    for mirror in mirrors:
        if total <= limit_bytes or mirror.touched_s > time.time() - FRESH_S:
            break
        if _remove(mirror.path):
            total -= mirror.size_bytes
            removed.append(mirror.path)
    return removed


def configured_bytes() -> float:
    """Return the configured size limit of all mirrors together."""
    try:
        config, _ = load_config(start=Path.cwd(), environ=os.environ)
    except (ConfigError, OSError):  # reported when the configuration is loaded
        return float("inf")
    return config.cache_mb * 2**20 or float("inf")


def _measured(run: Path) -> StoredRun:
    """Return a mirror's size, and when it was last used."""
    mirror = measure(run)
    try:
        used_s = (run / _LOCK).stat().st_mtime
    except OSError:
        return mirror
    return StoredRun(path=run, size_bytes=mirror.size_bytes, touched_s=used_s)


def _remove(run: Path) -> bool:
    """Remove a mirror that no process uses; return whether it was removed."""
    try:
        file = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return False
    gone = run.parent.with_name(f"{GONE}{secrets.token_hex(8)}")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(run.parent, gone)
    except OSError:  # another process reads it, or this is unknown
        return False
    finally:
        os.close(file)
    shutil.rmtree(gone, ignore_errors=True)
    return True


def _shared(lock: Path) -> int | None:
    """Return an open file with a shared lock; None if locking is impossible."""
    for _ in range(TRIES):
        try:
            lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return _locked(lock)
        except (FileNotFoundError, FileExistsError):  # the mirror was just removed
            continue
        except OSError:
            break
    return None


def _locked(lock: Path) -> int:
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        if not os.path.samestat(os.fstat(file), lock.stat()):
            raise FileNotFoundError(f"{lock} was replaced")
    except OSError:
        os.close(file)
        raise
    return file
