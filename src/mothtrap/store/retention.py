"""Selection of runs to be removed for space, and their removal."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GONE = ".gone-"
"""Prefix of a run's folder during its removal; no listing shows such a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A stored run.

    Attributes:
        path: folder of the run.
        size_bytes: size of all its files.
        touched_s: Unix time of the last write to any of its files.
        kept: reason why it must not be removed, or ''.
    """

    path: Path
    size_bytes: int
    touched_s: float
    kept: str = ""


def measure(path: Path) -> StoredRun:
    """Return a run's size and age, without following links or counting files that disappear."""
    size, touched_s = 0, 0.0
    for folder, _, files in os.walk(path):
        for name in ("", *files):
            try:
                found = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            size += found.st_size if name else 0
            touched_s = max(touched_s, found.st_mtime)
    return StoredRun(path=path, size_bytes=size, touched_s=touched_s)


def superfluous(
    runs: Sequence[StoredRun],
    *,
    keep: int | None = None,
    older_than_s: float | None = None,
    max_bytes: float | None = None,
    now_s: float,
) -> list[tuple[StoredRun, str]]:
    """Return the runs to remove, oldest first, and why.

    The `keep` latest runs stay regardless of the other limits; without another limit, all others
    are removed. Runs with a reason to be kept stay, but count.

    Args:
        runs: the latest first.
        keep: number of latest runs to keep.
        older_than_s: seconds since the last write after which a run is removed.
        max_bytes: limit on all runs together; the oldest are removed until they fit.
        now_s: Unix time.
    """
    total = sum(run.size_bytes for run in runs)
    candidates = [run for run in runs[keep or 0 :] if not run.kept]
    chosen = []
    for run in reversed(candidates):
        if older_than_s is not None and now_s - run.touched_s > older_than_s:
            reason = "too old"
        elif max_bytes is not None and total > max_bytes:
            reason = "above the size limit"
        elif keep is not None and older_than_s is None and max_bytes is None:
            reason = f"not among the latest {keep}"
        else:
            continue
        total -= run.size_bytes
        chosen.append((run, reason))
    return chosen


def remove(path: Path) -> None:
    """Remove a run: it disappears from every listing at once, and is then deleted from the disk.

    Raises:
        OSError: it cannot be removed; the name of the remaining folder begins with `GONE`, and
            `sweep` removes it.
    """
    gone = path.with_name(f"{GONE}{secrets.token_hex(8)}")
    os.rename(path, gone)
    shutil.rmtree(gone)


def sweep(runs_dir: Path) -> None:
    """Delete the remains of interrupted removals."""
    for path in runs_dir.glob(f"{GONE}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
