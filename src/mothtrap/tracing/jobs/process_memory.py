"""Peak memory of this process, in total or since a point in time."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from mothtrap.snapshot.spare_memory import available_bytes

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Value that resets the peak resident memory of a process to its current memory; see `man 5
proc`."""


class ProcessMemory:
    """Memory of this process since this object was created."""

    def __init__(self) -> None:
        self._known = False
        with suppress(OSError):
            _CLEAR.write_text(_RESET_PEAK)
            self._known = True
        self._limit = available_bytes() + psutil.Process().memory_info().rss

    def now(self) -> tuple[float, float]:
        """Return the peak memory so far, and the available memory, in bytes; NaN if unknown."""
        return (_peak() if self._known else math.nan), self._limit


def _peak() -> float:
    with suppress(OSError, ValueError, StopIteration):
        lines = _STATUS.read_text().splitlines()
        return 1024.0 * int(next(one for one in lines if one.startswith("VmHWM:")).split()[1])
    return math.nan


def peak_bytes() -> int:
    """Return the peak memory of this process so far, or the current memory if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return int(psutil.Process().memory_info().rss)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
