"""State of each worker of an attempt, up to the data read so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerPace
from mothtrap.reader.files.attempts import AttemptView
from mothtrap.reader.files.node_views import NodeViews
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.store.stalls import StallReader

SILENT_S, SILENT_STEPS = 15.0, 20
"""Seconds, and multiple of the step time, without news after which a worker counts as silent;
chosen by hand, above the pauses between two reports of a node.
"""


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
            `ended`, `failed`, `gone` (its process no longer exists), or `silent` (its node does not
            report it, or reports nothing).
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
    """States of the workers of an attempt, by rank; `expected` is the total number of workers."""

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
        attempt: attempt as of the last read.
        now_s: Unix time; None = now.
    """
    now_s = time.time() if now_s is None else now_s
    states = {
        rank: _state(rank, view, now_s, is_gone=rank in attempt.gone)
        for rank, view in attempt.workers.items()
    }
    merged = attempt.nodes.workers
    states |= {rank: _merged(rank, attempt.nodes) for rank in merged if rank not in states}
    started = [
        *(view.started for view in attempt.workers.values()),
        *(worker.started for worker in merged.values()),
    ]
    sizes = [start.world_size for start in started if start is not None]
    return Workers(tuple(states[rank] for rank in sorted(states)), max([*sizes, len(states)]))


def _state(rank: int, view: WorkerView, now_s: float, *, is_gone: bool) -> WorkerState:
    paces = [fact for fact in view.observations if isinstance(fact, WorkerPace)]
    state, detail = _word(view.ended, StallReader(view.folder).poll, is_gone=is_gone)
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


def _merged(rank: int, nodes: NodeViews) -> WorkerState:
    """Return the state of a worker whose own log is not on this machine."""
    worker, age_s = nodes.workers[rank], nodes.age_s(rank)
    state, detail = _word(worker.ended, lambda: worker.stalled, is_gone=False)
    step_s = float(np.median(worker.steps_s)) if worker.steps_s else None
    silent_s = nodes.age_s(rank, of_sign=True)
    least_s = SILENT_S if worker.sign_s else max(SILENT_S, SILENT_STEPS * (step_s or 0.0))
    if worker.ended is None and silent_s >= least_s:
        state, detail = "silent", ""
    return WorkerState(
        rank=rank,
        host=worker.started.host if worker.started else "",
        steps=worker.steps,
        age_s=age_s,
        own_s=worker.pace.own_s if worker.pace else None,
        step_s=step_s,
        state=state,
        detail=detail,
    )


def _word(
    ended: WorkerEnded | None, stalled: Callable[[], WorkerStalled | None], *, is_gone: bool
) -> tuple[str, str]:
    if ended is not None:
        return ("failed" if ended.exception is not None else "ended"), ended.exception or ""
    if is_gone:
        return "gone", ""
    stall = stalled()
    if stall is None or stall.has_resumed:
        return "trains", ""
    place = f"{stall.function} ({stall.location})" if stall.location else stall.function
    if stall.collective is not None and stall.collective.waits:
        return "waits", f"{stall.collective.name} in {place}"
    if stall.reading:
        place = f"{place}; {stall.reading}"
    return ("idle" if stall.is_idle else "busy"), place


def _touched_s(folder: Path) -> float:
    """Return the time of the latest write of a step; 0 without any."""
    times = [0.0]
    try:
        with os.scandir(folder) as entries:
            times += [e.stat().st_mtime for e in entries if e.name.startswith("events-")]
    except OSError:
        pass
    return max(times)
