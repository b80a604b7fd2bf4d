"""Merged logs of several nodes, joined for rules that compare the workers of a job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mothtrap.core.fact import Fact
from mothtrap.core.quiet import Quiet
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode, StepKey
from mothtrap.monitor.joined import JoinedWindows
from mothtrap.monitor.monitor import Monitor
from mothtrap.monitor.silence import Silence
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.node_log import NodeReader, NodeRows, WorkerFact, WorkerStep

KEPT_STEPS = 64
"""Number of latest steps of each worker that are kept in memory; chosen by hand."""
_SCALARS = frozenset({"loss", "gradient_norm"})


class JoinedNodes:
    """Reads the merged logs of all nodes of an attempt, and evaluates rules on them.

    Rules that compare workers get the facts of all workers. A worker with a non-finite loss is also
    evaluated by the rules of the family NUM that need only losses.

    Args:
        attempt: folder of the attempt.
        rules: the active rules.
        quiet: severities and layers that the user ignores.
        clock: returns seconds of this process.

    Attributes:
        steps: largest number of train steps that a worker has made.
    """

    def __init__(
        self,
        attempt: Path,
        rules: Sequence[Rule],
        quiet: Quiet,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt, self._quiet = attempt, quiet
        self._of_losses = [rule for rule in rules if _needs_losses_only(rule)]
        comparing = [rule for rule in rules if rule.compares]
        self._windows = JoinedWindows()
        self._joined = Monitor(comparing, builder=self._windows, quiet=quiet)
        self._readers: dict[str, NodeReader] = {}
        self._silence = Silence(clock)
        self._latest: dict[int, deque[WorkerStep]] = {}
        self._bad: dict[int, Monitor] = {}
        self.steps = 0

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The monitors, which have the findings."""
        return (self._joined, *self._bad.values())

    def __bool__(self) -> bool:
        """Return whether the attempt has a merged log."""
        return bool(self._readers)

    def feed(self) -> bool:
        """Read new data; return whether there is anything to evaluate."""
        has_new = False
        for name in layout.nodes(self._attempt):
            if name not in self._readers:
                self._readers[name] = NodeReader(layout.node_folder(self._attempt, name))
            rows = self._readers[name].poll()
            self._silence.take(name, rows)
            has_new = self._take(rows) or has_new
        for silent in self._silence.changes():
            self._join(silent.rank, time.time(), (silent,))
            has_new = True
        return has_new

    def evaluate(self) -> None:
        """Evaluate the rules on the data read."""
        for monitor in self.monitors:
            monitor.finish()

    def _take(self, rows: NodeRows) -> bool:
        for step in rows.steps:
            self._take_step(step)
        for rank, left_s, facts in _by_record(rows.facts):
            self._join(rank, left_s, facts)
        return bool(rows.steps or rows.facts)

    def _take_step(self, step: WorkerStep) -> None:
        self.steps = max(self.steps, step.step + 1)
        kept = self._latest.setdefault(step.rank, deque(maxlen=KEPT_STEPS))
        kept.append(step)
        if step.rank in self._bad:
            self._bad[step.rank].take(_record(step))
        elif step.loss is not None and not np.isfinite(step.loss):
            monitor = Monitor(self._of_losses, step.rank, quiet=self._quiet)
            self._bad[step.rank] = monitor
            for each in sorted(kept, key=lambda each: each.step):
                monitor.take(_record(each))

    def _join(self, rank: int, left_s: float, facts: Sequence[Fact]) -> None:
        mode = facts[0].mode
        record = StepRecord(
            key=StepKey(step=facts[0].step, mode=mode, mode_step=facts[0].step),
            wall_s=left_s,
            optimizers=("",) if mode is Mode.TRAIN else (),
            tensor_T=np.empty(0, np.uint32),
            summary_TF=np.empty((0, WIDTH)),
            observations=tuple(facts),
        )
        self._windows.add(rank, record)
        self._joined.take(record)


def _by_record(facts: Sequence[WorkerFact]) -> Iterator[tuple[int, float, list[Fact]]]:
    """Yield facts of one worker and step together."""
    found: dict[tuple[int, int, Mode], tuple[float, list[Fact]]] = {}
    for rank, left_s, fact in facts:
        found.setdefault((rank, fact.step, fact.mode), (left_s, []))[1].append(fact)
    for (rank, _, _), (left_s, those) in found.items():
        yield rank, left_s, those


def _record(step: WorkerStep) -> StepRecord:
    values = {"loss": step.loss, "gradient_norm": step.gradient_norm}
    return StepRecord(
        key=StepKey(step=step.step, mode=Mode.TRAIN, mode_step=step.step),
        wall_s=step.left_s,
        optimizers=("",),
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        scalars=tuple(Scalar(n, "", value) for n, value in values.items() if value is not None),
    )


def _needs_losses_only(rule: Rule) -> bool:
    required = [need for need in rule.needs if not need.optional]
    return (
        rule.code.startswith("NUM")
        and bool(required)
        and all(n.scalars and not n.kinds and not n.facts for n in required)
        and {name for need in required for name in need.scalars} <= _SCALARS
    )
