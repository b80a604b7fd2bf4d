"""DST952: one rank delays the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.facts.workers import WorkerPace, WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.phases import DATA, EVALUATION, FORWARD, LOSS, OPTIMIZER, OTHER, SAVE
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import named, nearly_all

Paces = Mapping[int, Mapping[int, WorkerPace]]

IN_WORDS = {
    DATA: "waiting for data",
    FORWARD: "in the forward pass",
    LOSS: "in the loss",
    OPTIMIZER: "in the optimizer step",
    EVALUATION: "in evaluations",
    SAVE: "in saving",
    OTHER: "in other code of the script",
}
"""Phases of a rank's own part of a step."""


@frozen
class Straggler(Rule):
    """One rank delays the others.

    What it detects:
        A rank whose own part of a step, everything except backward, takes longer than on the
        other ranks, step after step.

    Why it matters:
        Gradients are averaged in every step, so all ranks are as slow as the slowest. A rank
        that loads data slowly, or shares its device, wastes the time of all ranks.

    Fires:
        Warning when the own part of one rank takes `ratio` times the median of the others, and is
        longer by more than `step_share` of the step, in `times` consecutive observations of 50
        steps. Where phases are timed (PyTorch), the message names the phase that causes at least
        `cause_share` of the difference.

    Stays quiet:
        Ranks that take turns being slow (batches of different length). Occasional evaluations and
        checkpoints on one rank. A rank that is slow in backward itself cannot be distinguished
        from ranks that wait for it there.

    What to do:
        - Check what else this rank does: logging, checkpoints, evaluation on rank 0, another job
          on its device.
        - Give every rank the same amount of data, and its own loader: `DistributedSampler`,
          `num_workers`, a local disk.
        - Check the machine: clocks, temperature, swapping.

    Example:
        if rank == 0:
            save_images(batch)            # at every step: all others wait

    References:
        Amazon SageMaker Debugger, LoadBalancing rule.
    """

    code = "DST952"
    needs = (
        Need(facts=(WorkerPace, WorkerStarted)),
        Need(facts=(PhasesTimed,), optional=True),
    )
    proof = Proof(
        title="Time of a step outside backward (s)",
        fact=WorkerPace,
        field="own_s",
        reference=("others",),
    )
    compares = True

    ratio: float = threshold(1.5, unit="times the median of the others", source="chosen by hand")
    step_share: float = threshold(
        0.2, unit="of the step", source="chosen by hand: less is not worth the effort"
    )
    times: int = threshold(
        3, unit="consecutive observations", source="chosen by hand: they cover 150 steps"
    )
    cause_share: float = threshold(
        0.6, unit="of the difference from the others", source="chosen by hand"
    )

    def check(self, window: Window) -> list[Finding]:
        """Find a rank that was the slowest in the latest observations."""
        parts = (window, *window.peers)
        sizes = [start.world_size for part in parts for start in part.seen(WorkerStarted)]
        if not window.peers and max(sizes, default=1) < 2:
            raise NotApplicable("the job has one rank")
        paces = {part.worker: {p.step: p for p in part.seen(WorkerPace)} for part in parts}
        steps = _compared(paces)
        if len(paces) < 2 or len(steps) < self.times:
            raise NotEnoughData(f"needs {self.times} observations of all ranks")
        slow = [self._slow(_at(paces, step)) for step in steps]
        return self._findings(window, steps, slow, paces)

    def _slow(self, paces: Mapping[int, WorkerPace]) -> int | None:
        """Return the rank that the others wait for, if any."""
        worker = max(paces, key=lambda rank: paces[rank].own_s)
        others_s = np.median([pace.own_s for rank, pace in paces.items() if rank != worker])
        own_s, step_s = paces[worker].own_s, paces[worker].step_s
        longer = own_s > self.ratio * others_s and own_s - others_s > self.step_share * step_s
        return worker if longer else None

    def _findings(
        self,
        window: Window,
        steps: list[int],
        slow: list[int | None],
        paces: Paces,
    ) -> list[Finding]:
        running = 0
        for place, worker in enumerate(slow):
            same = place > 0 and worker == slow[place - 1]
            running = 0 if worker is None else running + 1 if same else 1
            if worker is None or running < self.times:
                continue
            step = steps[place]
            there = _at(paces, step)
            others_s = np.median([pace.own_s for rank, pace in there.items() if rank != worker])
            pace = paces[worker][step]
            first = steps[place - running + 1]
            return [
                self.finding(
                    window,
                    severity=Severity.WARNING,
                    step=max(0, first - pace.steps + 1),
                    last_step=step,
                    count=running * pace.steps,
                    workers=(worker,),
                    message=(
                        f"{named(window, worker)} takes {1000 * pace.own_s:.3g} ms for its own "
                        f"part of a step of {1000 * pace.step_s:.3g} ms, while the others take "
                        f"{1000 * others_s:.3g} ms{self._cause(window, worker, first)}"
                    ),
                    evidence={
                        "value": pace.own_s,
                        "others": float(others_s),
                        "step_s": pace.step_s,
                    },
                )
            ]
        return []

    def _cause(self, window: Window, worker: int, since: int) -> str:
        """Return the phase in which most of the difference to the other ranks lies, in words."""
        phases = {part.worker: _phases(part, since) for part in (window, *window.peers)}
        own = phases.pop(worker, {})
        others = [each for each in phases.values() if each]
        if not own or not others:
            return ""
        more_s = {
            phase: max(0.0, own[phase] - float(np.median([each[phase] for each in others])))
            for phase in IN_WORDS
        }
        phase = max(more_s, key=more_s.__getitem__)
        if more_s[phase] < self.cause_share * sum(more_s.values()) or not more_s[phase]:
            return ""
        return f"; most of the difference is {IN_WORDS[phase]}"


def _phases(part: Window, since: int) -> dict[str, float]:
    """Return the seconds of a rank in each phase of a step from a step on; empty if unknown."""
    timed = [each for each in part.seen(PhasesTimed) if each.step >= since]
    steps = sum(each.step - each.first_step + 1 for each in timed)
    return {
        phase: sum(each.seconds.get(phase, 0.0) for each in timed) / steps
        for phase in IN_WORDS
        if steps
    }


def _compared(paces: Paces) -> list[int]:
    """Return the steps that nearly all workers have observed; one may have stopped training."""
    counts = Counter(step for own in paces.values() for step in own)
    return sorted(step for step, count in counts.items() if count >= nearly_all(len(paces)))


def _at(paces: Paces, step: int) -> dict[int, WorkerPace]:
    return {worker: own[step] for worker, own in paces.items() if step in own}
