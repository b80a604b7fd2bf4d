"""State of the workers of an attempt, from the merged logs of their nodes."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerPace, WorkerStarted
from mothtrap.store import layout
from mothtrap.store.node_log import NodeReader, NodeRows

LATEST_STEPS = 16
"""Number of latest steps whose median counts as a worker's step time; chosen by hand."""


@dataclass(slots=True, kw_only=True)
class MergedWorker:
    """A worker, as described by the log of its node.

    Attributes:
        node: name of the node.
        news_s: Unix time of the last step or report, by the clock of the node.
        sign_s: Unix time of the last sign of life, by the same clock; 0 without any.
        steps: number of train steps.
        started, ended, pace, stalled: the last fact of each kind.
        steps_s: seconds of the last steps.
    """

    node: str
    news_s: float = 0.0
    sign_s: float = 0.0
    steps: int = 0
    started: WorkerStarted | None = None
    ended: WorkerEnded | None = None
    pace: WorkerPace | None = None
    stalled: WorkerStalled | None = None
    steps_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST_STEPS))


class NodeViews:
    """Reads the growing merged logs of all nodes of an attempt.

    Args:
        attempt: folder of the attempt.

    Attributes:
        workers: workers by rank.
    """

    def __init__(self, attempt: Path) -> None:
        self._attempt = attempt
        self._readers: dict[str, NodeReader] = {}
        self._beats: dict[str, tuple[float, float]] = {}
        self.workers: dict[int, MergedWorker] = {}

    def refresh(self) -> None:
        """Read new data."""
        for name in layout.nodes(self._attempt):
            if name not in self._readers:
                self._readers[name] = NodeReader(layout.node_folder(self._attempt, name))
            rows = self._readers[name].poll()
            if rows.beat_s:
                self._beats[name] = (rows.beat_s, time.monotonic())
            self._take(name, rows)

    def age_s(self, rank: int, *, of_sign: bool = False) -> float:
        """Return the time since the last news of a worker, in seconds.

        Measured by the clock of its node, plus the time since the node last sent news here.

        Args:
            rank: rank of the worker.
            of_sign: count signs of life as news.
        """
        worker = self.workers[rank]
        news_s = max(worker.news_s, worker.sign_s if of_sign else 0.0)
        beat_s, arrived_s = self._beats.get(worker.node, (news_s, time.monotonic()))
        return max(0.0, beat_s - news_s) + time.monotonic() - arrived_s

    def damage(self, *, ended: bool) -> list[str]:
        """Return the damage; with `ended`, writers have ended, so an incomplete end is damage."""
        return [text for one in self._readers.values() for text in one.damage(ended=ended)]

    def _take(self, name: str, rows: NodeRows) -> None:
        for step in rows.steps:
            worker = self._heard(name, step.rank, step.left_s)
            worker.steps = max(worker.steps, step.step + 1)
            if step.step_s is not None:
                worker.steps_s.append(step.step_s)
        for rank, left_s, fact in rows.facts:
            worker = self._heard(name, rank, left_s)
            if isinstance(fact, WorkerStarted):
                worker.started, worker.ended = fact, None
            elif isinstance(fact, WorkerEnded):
                worker.ended = fact
            elif isinstance(fact, WorkerPace):
                worker.pace = fact
            elif isinstance(fact, WorkerStalled):
                worker.stalled = fact

        for rank, at_s in rows.signs.items():
            worker = self.workers.setdefault(rank, MergedWorker(node=name))
            worker.sign_s = max(worker.sign_s, at_s)

    def _heard(self, name: str, rank: int, news_s: float) -> MergedWorker:
        worker = self.workers.get(rank)
        if worker is None or worker.node != name:
            worker = self.workers[rank] = MergedWorker(node=name)
        worker.news_s = max(worker.news_s, news_s)
        return worker
