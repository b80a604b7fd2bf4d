"""Folders of an attempt that look like folders of workers, but are copies of other folders."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path

from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store import layout
from mothtrap.store.machine_log import TABLE as MACHINE

_OF_WORKERS = ("events", *layout.TABLES_OF_STEPS)


def copied_workers(workers: Mapping[int, WorkerView]) -> Iterator[tuple[int, str]]:
    """Yield the ranks whose folders are copies, with the reason.

    A copy has the same beginning as another worker: the same process, and the same time of its
    first record. The original is the folder of its own rank, otherwise the lowest rank. A folder
    whose own records contain its rank is not a copy, however similar others are.
    """
    originals: dict[Hashable, int] = {}
    for rank in sorted(workers, key=lambda rank: (not _is_own(rank, workers[rank]), rank)):
        view = workers[rank]
        if view.started is None:
            if _is_foreign(view.folder):
                yield rank, "it contains no files of a worker"
            continue
        start = view.started
        whose = (start.host, start.pid, start.pid_ticks, float(view.commits.wall_s[0]))
        original = originals.setdefault(whose, rank)
        if original != rank and not _is_own(rank, view):
            yield rank, f"it is a copy of w{original}"


def _is_own(rank: int, view: WorkerView) -> bool:
    return view.started is not None and view.started.rank == rank


def _is_foreign(folder: Path) -> bool:
    tables = layout.tables(folder)
    timed = (table for table in tables if table.startswith(layout.TIMED) and table != MACHINE)
    return bool(tables) and not any(timed) and not set(_OF_WORKERS) & set(tables)
