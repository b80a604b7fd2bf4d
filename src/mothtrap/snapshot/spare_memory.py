"""Limit on the memory of a copy, so that no process is killed because memory runs out."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

SHARE = 2
"""Divisor of the free memory; chosen by hand: the training still needs some."""

_RANKS_HERE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
_VERSION_2 = ("memory.max", "memory.current", "")


def spare_bytes(variables: Mapping[str, str] = os.environ) -> float:
    """Return the memory that this worker may use if all workers of a machine do the same.

    Args:
        variables: environment variables in which launchers provide the number of workers per
            machine.
    """
    ranks = (variables.get(name, "") for name in _RANKS_HERE)
    workers = next((int(number) for number in ranks if number.isdecimal() and int(number)), 1)
    return available_bytes() / SHARE / workers


def available_bytes(root: Path = Path("/")) -> float:
    """Return the free memory of the machine and of each cgroup that contains this process.

    Memory used by the file cache counts as free, because the kernel releases it.

    Args:
        root: root of the file system.
    """
    left = float(psutil.virtual_memory().available)
    return min([left, *(_left_in(folder, version) for folder, version in _groups(root))])


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the cgroups of this process, innermost first; some may not exist."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not on Linux
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mounted = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        own = Path(name.lstrip("/"))
        for path in (own, *own.parents):  # in a container, the names above may be those of the host
            yield mounted / path, _VERSION_1 if controllers else _VERSION_2


def _left_in(group: Path, version: tuple[str, str, str]) -> float:
    limit, usage, prefix = version
    try:
        most, used = (group / limit).read_text(), (group / usage).read_text()
        lines = (group / "memory.stat").read_text().splitlines()
        counted = dict(line.split(" ", 1) for line in lines)
        cached = sum(int(counted.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
        return max(0.0, int(most) - max(0, int(used) - cached))
    except (OSError, ValueError):  # no file, or "max": no limit
        return math.inf
