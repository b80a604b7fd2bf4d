"""State of each worker of an attempt, as far as it was read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from mothtrap.core.facts.workers import WorkerPace
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store.stalls import StallReader


class WorkerState(NamedTuple):
    """State of a worker.

    Attributes:
        rank: rank of the worker.
        host: name of its machine; "" if unknown.
        steps: number of train steps.
        age_s: seconds since it last stored data.
        own_s: median seconds per recent step outside of backward; None if unknown.
        step_s: median seconds per recent step; None if unknown.
        state: `trains`, `waits`, `idle`, `busy` (no step for a long time, but it uses the CPU),
            `ended`, `failed`, or `gone` (its process no longer exists).
        detail: the collective in which it waits, its current line, or its exception.
    """

    rank: int
    host: str
    steps: int
    age_s: float
    own_s: float | None
    step_s: float | None
    state: str
    detail: str = ""


class Workers(NamedTuple):
    """States of the workers of an attempt, by rank; `expected` is the number of workers in all."""

    states: tuple[WorkerState, ...]
    expected: int

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the workers that stored nothing."""
        seen = {each.rank for each in self.states}
        return tuple(rank for rank in range(self.expected) if rank not in seen)


def workers_of(attempt: AttemptView, now_s: float | None = None) -> Workers:
    """Return the states of the workers of an attempt.

    Args:
        attempt: as it was last read.
        now_s: Unix time; None: now.
    """
    now_s = time.time() if now_s is None else now_s
    states = [
        _state(rank, view, now_s, is_gone=rank in attempt.gone)
        for rank, view in sorted(attempt.workers.items())
    ]
    sizes = [view.started.world_size for view in attempt.workers.values() if view.started]
    return Workers(tuple(states), max([*sizes, len(states)]))


def _state(rank: int, view: WorkerView, now_s: float, *, is_gone: bool) -> WorkerState:
    paces = [fact for fact in view.observations if isinstance(fact, WorkerPace)]
    state, detail = _word(view, is_gone=is_gone)
    return WorkerState(
        rank=rank,
        host=view.started.host if view.started else "",
        steps=view.steps,
        age_s=max(0.0, now_s - _touched_s(view.folder)),
        own_s=paces[-1].own_s if paces else None,
        step_s=paces[-1].step_s if paces else None,
        state=state,
        detail=detail,
    )


def _word(view: WorkerView, *, is_gone: bool) -> tuple[str, str]:
    if view.ended is not None:
        failed = view.ended.exception is not None
        return ("failed" if failed else "ended"), view.ended.exception or ""
    if is_gone:
        return "gone", ""
    stall = StallReader(view.folder).poll()
    if stall is None or stall.has_resumed:
        return "trains", ""
    place = f"{stall.function} ({stall.location})" if stall.location else stall.function
    if stall.collective is not None and stall.collective.waits:
        return "waits", f"{stall.collective.name} in {place}"
    if stall.reading:
        place = f"{place}; {stall.reading}"
    return ("idle" if stall.is_idle else "busy"), place


def _touched_s(folder: Path) -> float:
    """Return the time of the latest write of a step; 0 where there is none."""
    times = [0.0]
    try:
        with os.scandir(folder) as entries:
            times += [e.stat().st_mtime for e in entries if e.name.startswith("events-")]
    except OSError:
        pass
    return max(times)
