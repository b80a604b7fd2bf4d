"""Fingerprint of a run, which changes whenever one of its files changes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import xxhash

SETTLED_S = 2.0
"""Age from which the next write certainly changes a file's modification time; chosen by hand, far
above the clock resolution of file systems (10 ms, or 1 s over some networks).
"""


class Fingerprint(NamedTuple):
    """State of a run's files at a point in time.

    Attributes:
        digest: changes whenever any file does; "" if some files cannot be examined.
        changed_s: Unix time of the latest change.
    """

    digest: str
    changed_s: float

    @property
    def is_settled(self) -> bool:
        """True if the digest would certainly differ after another write."""
        return bool(self.digest) and time.time() - self.changed_s > SETTLED_S


def fingerprint(run: Path) -> Fingerprint:
    """Return a run's fingerprint: name, inode, size, and change times of every file.

    No file is opened; a file costs about 5 us. The time of the last change of an inode (`ctime`)
    is included, so that a program that restores the time of a file does not hide its change.
    """
    try:
        changed_ns, lines = _examine(os.fspath(run), "")
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return Fingerprint("", 0.0)
    digest = xxhash.xxh3_128_hexdigest("\n".join(sorted(lines)).encode("utf-8", "surrogateescape"))
    return Fingerprint(digest, changed_ns / 1e9)


def _examine(folder: str, prefix: str) -> tuple[int, list[str]]:
    """Return the latest change below a folder in nanoseconds, and a line for each file.

    Raises:
        OSError: a folder cannot be listed, or is a link, whose target could change unseen.
    """
    newest_ns, lines = 0, []
    with os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                found = os.stat(entry.path)
                if entry.is_dir():
                    raise OSError(f"{entry.path} is a link to a folder")
            newest_ns = max(newest_ns, found.st_mtime_ns, found.st_ctime_ns)
            if entry.is_dir():
                below_ns, below = _examine(entry.path, f"{name}/")
                newest_ns = max(newest_ns, below_ns)
                lines += below
            else:
                lines.append(
                    f"{name} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
                )
    return newest_ns, lines
