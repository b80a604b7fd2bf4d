"""Some kilobytes that a run holds while it goes on, so that its end finds room on a full disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
RESERVED_BYTES = 64 << 10
"""More than the facts of an end take in their segments, about 20 kB; chosen by hand."""


def hold(folder: Path) -> None:
    """Take the room; where there is none, nothing is held."""
    with suppress(OSError):
        (folder / NAME).write_bytes(os.urandom(RESERVED_BYTES))  # zeros may be stored as a hole


def held_bytes(folder: Path) -> int:
    """Return the room that is held in a folder and in those in it."""
    return sum(path.stat().st_size for path in folder.rglob(NAME))


def release(folder: Path) -> None:
    """Give back the room of a folder, and of the folders in it: of workers that were killed."""
    with suppress(OSError):
        for path in folder.rglob(NAME):
            path.unlink(missing_ok=True)
