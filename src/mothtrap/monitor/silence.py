"""Detect workers without a sign of life while at least half of the other workers report."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from mothtrap.core.facts.stalls import WorkerSilent
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.store.node_log import NodeRows

SIGN_S = 8.0
"""Time without a sign of life after which a worker is silent; chosen by hand. Its process sends a
sign every second, even during long steps.
"""
LEAST_S = 12.5
"""The same limit for a worker without such signs, which reports its position after 10 to 12 s."""
NODE_S = 30.0
"""The limit for a node that sends nothing; its connection to the store may be slow.
"""
TIMES_A_STEP = 10
TIMES_THE_LONGEST = 2
"""As for workers that record their position (`session/stall_observer.py`)."""
FRESH_SHARE = 0.5
"""Share of the limit within which the other workers must have given news; chosen by hand."""
LATEST_STEPS = 16
"""Number of latest steps whose median counts as a worker's step time; chosen by hand."""


@dataclass(slots=True)
class _Worker:
    node: str
    news_s: float
    host: str = ""
    step: int = 0
    longest_s: float = 0.0
    has_ended: bool = False
    is_silent: bool = False
    has_signs: bool = False
    steps_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST_STEPS))


@dataclass(slots=True)
class _Node:
    beat_s: float = 0.0
    arrived_s: float = 0.0
    longest_s: float = 0.0


class Silence:
    """Time since the last news of each worker.

    The age of a worker's news is measured with the clock of its node, and the age of a node's news
    with the clock of this process. So clocks of machines are never compared.

    Args:
        clock: returns seconds of this process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._workers: dict[int, _Worker] = {}
        self._nodes: dict[str, _Node] = {}

    def take(self, name: str, rows: NodeRows) -> None:
        """Add new rows of a node."""
        if not (rows.beat_s or rows.steps or rows.facts or rows.signs):
            return
        node, now_s = self._nodes.setdefault(name, _Node()), self._clock()
        if node.arrived_s:
            node.longest_s = max(node.longest_s, now_s - node.arrived_s)
        node.beat_s, node.arrived_s = max(node.beat_s, rows.beat_s), now_s
        for step in rows.steps:
            worker = self._heard(name, step.rank, step.left_s)
            worker.step = max(worker.step, step.step)
            if step.step_s is not None:
                worker.steps_s.append(step.step_s)
        for rank, left_s, fact in rows.facts:
            worker = self._heard(name, rank, left_s)
            if isinstance(fact, WorkerStarted):
                worker.host, worker.has_ended = fact.host, False
            elif isinstance(fact, WorkerEnded):
                worker.has_ended = True

        for rank, at_s in rows.signs.items():
            self._heard(name, rank, at_s).has_signs = True

    def changes(self) -> Iterator[WorkerSilent]:
        """Yield workers that became silent, and silent workers that report again."""
        ages = {r: self._age_s(w) for r, w in self._workers.items() if not w.has_ended}
        if not ages:
            return
        limit_s = self._limit_s
        fresh = sum(
            age_s <= FRESH_SHARE * (SIGN_S if self._workers[rank].has_signs else limit_s)
            for rank, age_s in ages.items()
        )
        for rank, age_s in ages.items():
            worker = self._workers[rank]
            own_s = max(limit_s, TIMES_THE_LONGEST * worker.longest_s + LEAST_S / 10)
            own_s = SIGN_S if worker.has_signs else own_s
            if worker.is_silent and age_s < own_s:
                worker.is_silent = False
                yield self._fact(rank, age_s, has_resumed=True)
            elif not worker.is_silent and age_s >= own_s and 2 * fresh >= len(ages):
                worker.is_silent = True
                yield self._fact(rank, age_s)
        for rank, worker in self._workers.items():
            if worker.has_ended and worker.is_silent:
                worker.is_silent = False
                yield self._fact(rank, 0.0, has_resumed=True)

    def _heard(self, node: str, rank: int, news_s: float) -> _Worker:
        worker = self._workers.get(rank)
        if worker is None or worker.node != node:
            worker = self._workers[rank] = _Worker(node, news_s)
        if news_s > worker.news_s:
            worker.longest_s = max(worker.longest_s, news_s - worker.news_s)
            worker.news_s = news_s
        return worker

    @property
    def _limit_s(self) -> float:
        medians = [np.median(w.steps_s) for w in self._workers.values() if w.steps_s]
        return max(LEAST_S, TIMES_A_STEP * float(np.median(medians))) if medians else LEAST_S

    def _age_s(self, worker: _Worker) -> float:
        """Return the seconds since the last sign of a worker, as reported by its node."""
        node = self._nodes[worker.node]
        quiet_s = self._clock() - node.arrived_s
        if quiet_s >= max(NODE_S, TIMES_THE_LONGEST * node.longest_s):
            return max(0.0, node.beat_s - worker.news_s) + quiet_s
        return max(0.0, node.beat_s - worker.news_s)

    def _fact(self, rank: int, age_s: float, *, has_resumed: bool = False) -> WorkerSilent:
        worker = self._workers[rank]
        mates = [w for w in self._workers.values() if w.node == worker.node and not w.has_ended]
        node = self._nodes[worker.node]
        return WorkerSilent(
            step=worker.step,
            rank=rank,
            host=worker.host,
            silent_s=age_s,
            is_node=len(mates) > 1 and self._clock() - node.arrived_s >= NODE_S,
            has_resumed=has_resumed,
        )
