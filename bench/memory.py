"""Memory of a process: current use, and the peak since a point in time; Linux only."""

from __future__ import annotations

import re
from pathlib import Path


class Growth:
    """Begins to count when it is made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before_kb = _status_kb("VmRSS")

    def peak_mb(self) -> float:
        """Increase of the peak resident memory since then, in MB of 10^6 bytes."""
        return (_status_kb("VmHWM") - self._before_kb) * 1024 / 1e6


def resident_mb() -> float:
    """Resident memory of this process, in MB of 10^6 bytes."""
    return _status_kb("VmRSS") * 1024 / 1e6


def _status_kb(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    if found is None:
        raise OSError(f"/proc/self/status tells no {name}")
    return int(found[1])
