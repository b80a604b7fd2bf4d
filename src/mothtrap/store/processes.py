"""Identity of a process behind a pid, independent of clocks that can be set."""

from __future__ import annotations

from pathlib import Path

import psutil

_START_FIELD = 19  # field of /proc/<pid>/stat, counted after the name of the program


def start_ticks(pid: int) -> int:
    """Return when a process began, in ticks since the machine booted; 0 if unknown.

    The value distinguishes two processes with the same pid in the same boot, and does not depend on
    changes of the wall clock.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False
