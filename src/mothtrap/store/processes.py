"""Identity of a process behind a pid, independent of clocks that can be set."""

from __future__ import annotations

from pathlib import Path

import psutil

_START_FIELD = 19  # of /proc/<pid>/stat, counted behind the name of the program


def start_ticks(pid: int) -> int:
    """Return when a process began, in ticks since the machine booted; 0 where unknown.

    Two processes of one boot that had the same pid differ in it, and no change of the wall
    clock changes it.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, other than a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False
