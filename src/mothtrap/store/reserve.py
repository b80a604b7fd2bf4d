"""Space of a few kilobytes reserved during the job, so that a run can end on a full disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
RESERVED_BYTES = 64 << 10
"""More than the facts at the end of a run need in their segments, about 20 kB; chosen by hand."""


def hold(folder: Path) -> None:
    """Reserve space; does nothing if the disk is full."""
    with suppress(OSError):
        # zeros may be stored without using space
        (folder / NAME).write_bytes(os.urandom(RESERVED_BYTES))


def held_bytes(folder: Path) -> int:
    """Return the space reserved in a folder and its subfolders."""
    return sum(path.stat().st_size for path in folder.rglob(NAME))


def release(folder: Path) -> None:
    """Release the space reserved in a folder and its subfolders."""
    with suppress(OSError):
        for path in folder.rglob(NAME):
            path.unlink(missing_ok=True)
