"""Merge the steps of a node's workers into one log in the launcher (`workers = "merged"`)."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mothtrap.capture.containment import Containment, say_on_stderr
from mothtrap.core.config import Config
from mothtrap.core.control_requests import DetailsRequest
from mothtrap.core.errors import MothtrapError
from mothtrap.core.fact import tag_of
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.findings import Severity
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode
from mothtrap.monitor.catalogue import load_rules
from mothtrap.store import control_inbox, layout
from mothtrap.store.finding_log import FindingReader
from mothtrap.store.manifests import Node
from mothtrap.store.node_log import NodeLog, WorkerFact, WorkerStep
from mothtrap.store.stalls import StallReader, sign_s
from mothtrap.store.worker_reading import ReadState

LOOK_EVERY_S = 1.0
"""Interval at which workers' files are read; chosen by hand."""
QUIET_S = 2.0
"""Time without a step after which signs of life of a worker are passed on; chosen by hand."""
RING_STEPS = 64
"""Maximum number of steps of a worker that are added to the log at a time; chosen by hand."""


class NodeMerger:
    """Merges the logs of the workers of one node.

    Args:
        folder: folder of the node; created by the first append.
        node: the node; its ranks and the size of the job are kept up to date.
        kinds: tags of the facts that are passed on.
        roll_s: seconds after which a segment is sealed; None = by size only.
    """

    def __init__(
        self, folder: Path, node: Node, kinds: Iterable[str], roll_s: float | None
    ) -> None:
        self._node, self._kinds = node, frozenset(kinds) | _ALWAYS
        self._log = NodeLog(folder, roll_s=roll_s)
        self._steps: dict[int, deque[WorkerStep]] = {}
        self._bad: dict[int, WorkerStep] = {}
        self._facts: list[WorkerFact] = []
        self._stalled: dict[int, WorkerFact] = {}
        self._has_failed: set[int] = set()
        self._news_s: dict[int, float] = {}
        self._signs: dict[int, float] = {}
        self._signed: set[int] = set()

    def take(self, rank: int, record: StepRecord) -> None:
        """Add the next record of a worker."""
        self._node.ranks.add(rank)
        self._news_s[rank] = record.wall_s
        for seen in record.observations:
            if isinstance(seen, WorkerStarted):
                self._node.world_size = max(self._node.world_size, seen.world_size)
            if tag_of(seen) in self._kinds:
                self._facts.append(WorkerFact(rank, record.wall_s, seen))
        if record.key.mode is not Mode.TRAIN or not record.optimizers:
            return
        values = {s.name: s.value for s in reversed(record.scalars) if s.name in _NUMBERS}
        losses = [s.value for s in record.scalars if s.name == "loss"]
        bad = [value for value in losses if not math.isfinite(value)]
        values |= {"loss": (bad or losses)[0]} if losses else {}
        step = WorkerStep(rank, record.key.step, record.wall_s, **values)
        self._steps.setdefault(rank, deque(maxlen=RING_STEPS)).append(step)
        if bad and rank not in self._has_failed:
            self._has_failed.add(rank)
            self._bad[rank] = step

    def take_stall(self, state: WorkerStalled) -> None:
        """Add the latest state of a worker that is not stepping."""
        self._stalled[state.rank] = WorkerFact(state.rank, state.at_s, state)

    def take_sign(self, rank: int, at_s: float) -> None:
        """Add the last time at which the process of a worker was known to run.

        It is passed on once at the start, and then while the worker sends no other data.
        """
        is_first = rank in self._news_s and rank not in self._signed
        if is_first or at_s - self._news_s.get(rank, at_s) >= QUIET_S:
            self._signs[rank] = at_s
            self._signed.add(rank)

    def flush(self, now_s: float) -> None:
        """Write the data added since the last call.

        Args:
            now_s: Unix time.

        Raises:
            OSError: the disk rejected the data; the next call tries again.
        """
        lost = [s for rank, s in self._bad.items() if s not in self._steps[rank]]
        steps = [*lost, *(step for ring in self._steps.values() for step in ring)]
        facts = [*self._facts, *self._stalled.values()]
        self._log.append(steps, facts, now_s, self._signs)
        for ring in self._steps.values():
            ring.clear()
        self._facts, self._bad, self._stalled, self._signs = [], {}, {}, {}

    def close(self) -> None:
        """Seal the log."""
        self._log.close()


_NUMBERS = ("step_s", "loss", "gradient_norm")
_ALWAYS = frozenset(tag_of(kind) for kind in (WorkerStarted, WorkerEnded, WorkerStalled))


class NodeMerging:
    """Merges the workers of this node in a thread of the launcher, for all attempts of a launch.

    Args:
        attempt: folder of the attempt that this launch opened or joined.
        config: configuration of the active rules.
        node: this node.
    """

    def __init__(self, attempt: Path, config: Config, node: Node) -> None:
        self._run, self._first = attempt.parent, int(attempt.name)
        # Sealed twice per upload interval, so that the newest rows wait for at most one upload.
        self._node, self._roll_s = node, config.roll_s / 2 if config.roll_s else None
        rules = [rule for rule in load_rules(config) if rule.compares]
        kinds = {kind for rule in rules for need in rule.needs for kind in need.facts}
        self._kinds = frozenset(map(tag_of, kinds))
        self._attempts: dict[int, _Attempt] = {}
        self._stopped = threading.Event()
        self._containment = Containment(say_on_stderr)
        self._thread = threading.Thread(target=self._watch, name="mothtrap merging", daemon=True)

    def begin(self) -> None:
        """Start merging."""
        self._thread.start()

    def close(self) -> None:
        """Merge the last data of the workers, and stop."""
        self._stopped.set()
        self._thread.join()
        self.look()
        for attempt in self._attempts.values():
            attempt.close()

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Merge new data; a failure is reported once and ends the merging."""
        if self._containment.is_off("merging"):
            return
        try:
            for number in layout.attempts(self._run):
                if number >= self._first and number not in self._attempts:
                    folder = layout.attempt_folder(self._run, number)
                    self._attempts[number] = _Attempt(folder, self._node, self._kinds, self._roll_s)
            if self._attempts:
                self._attempts[max(self._attempts)].look()
        except Exception as err:  # the job continues
            self._containment.report("merging", err)


class _Attempt:
    """Workers of this node in one attempt."""

    def __init__(
        self, folder: Path, node: Node, kinds: frozenset[str], roll_s: float | None
    ) -> None:
        self._folder, self._node = folder, node
        self._merger = NodeMerger(layout.node_folder(folder, node.name), node, kinds, roll_s)
        self._readers: dict[int, ReadState] = {}
        self._stalls: dict[int, StallReader] = {}
        self._findings: dict[int, FindingReader] = {}
        self._elsewhere: set[int] = set()
        self._inbox = control_inbox.Inbox(folder.parent)

    def look(self) -> None:
        for rank in layout.workers(self._folder):
            if rank not in self._elsewhere:
                self._look_at(rank)
        self._merger.flush(time.time())
        self._node.detailed |= self._wanted()

    def close(self) -> None:
        self._merger.close()

    def _look_at(self, rank: int) -> None:
        if rank not in self._readers:
            folder = layout.worker_folder(self._folder, rank)
            self._readers[rank] = ReadState(folder, has_statistics=False)
            self._stalls[rank] = StallReader(folder)
            self._findings[rank] = FindingReader(layout.monitor_folder(self._folder, rank))
        for record in self._readers[rank].poll():
            for seen in record.observations:
                if isinstance(seen, WorkerStarted) and seen.host != socket.gethostname():
                    self._elsewhere.add(rank)  # the folder is shared; its own node merges it
                    return
            self._merger.take(rank, record)
        if (state := self._stalls[rank].poll()) is not None:
            self._merger.take_stall(state)
        if (at_s := sign_s(layout.worker_folder(self._folder, rank))) > 0:
            self._merger.take_sign(rank, at_s)

    def _wanted(self) -> set[int]:
        """Return the workers whose own logs are sent: the first worker, and workers with findings.

        A monitor that joins the nodes requests the logs of workers with its own findings.
        """
        wanted = {0}
        for path in self._inbox.take():
            with suppress(MothtrapError, OSError):  # workers report invalid requests
                request = control_inbox.read(path)
                if (
                    isinstance(request, DetailsRequest)
                    and str(request.attempt) == self._folder.name
                ):
                    wanted.update(request.workers)
        wanted &= set(self._readers) - self._elsewhere
        for rank, reader in self._findings.items():
            reader.poll()
            if any(f.severity is not Severity.INFO and rank for f in reader.findings):
                wanted.add(rank)
        return wanted
