"""DST952: one rank delays the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.workers import WorkerPace, WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
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
        steps.

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
    needs = (Need(facts=(WorkerPace, WorkerStarted)),)
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
    times: int = threshold(3, unit="consecutive observations", source="chosen by hand: 150 steps")

    def check(self, window: Window) -> list[Finding]:
        """Find a rank that was the slowest in the latest observations."""
        parts = (window, *window.peers)
        sizes = [start.world_size for part in parts for start in part.seen(WorkerStarted)]
        if not window.peers and max(sizes, default=1) < 2:
            raise NotApplicable("the job has one rank")
        paces = {part.worker: {p.step: p for p in part.seen(WorkerPace)} for part in parts}
        steps = sorted(set.intersection(*(set(own) for own in paces.values())))
        if len(paces) < 2 or len(steps) < self.times:
            raise NotEnoughData(f"needs {self.times} observations of all ranks")
        slow = [self._slow({worker: own[step] for worker, own in paces.items()}) for step in steps]
        return self._findings(window, steps, slow, paces)

    def _slow(self, paces: Mapping[int, WorkerPace]) -> int | None:
        """Return the rank that the others wait for, if there is one."""
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
        paces: Mapping[int, Mapping[int, WorkerPace]],
    ) -> list[Finding]:
        running = 0
        for place, worker in enumerate(slow):
            same = place > 0 and worker == slow[place - 1]
            running = 0 if worker is None else running + 1 if same else 1
            if worker is None or running < self.times:
                continue
            step = steps[place]
            others_s = np.median([own[step].own_s for rank, own in paces.items() if rank != worker])
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
                        f"rank {worker} takes {1000 * pace.own_s:.3g} ms for its own part of a "
                        f"step of {1000 * pace.step_s:.3g} ms, the others {1000 * others_s:.3g} ms"
                    ),
                    evidence={
                        "value": pace.own_s,
                        "others": float(others_s),
                        "step_s": pace.step_s,
                    },
                )
            ]
        return []
