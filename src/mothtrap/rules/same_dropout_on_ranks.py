"""DST957: all ranks drop the same values in dropout."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import DropoutState, ReplicaBatch, ReplicaDigests
from mothtrap.core.facts.replicas import UnwrappedDigests as Unwrapped
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import trains_one_model, world_size


@frozen
class SameDropoutOnRanks(Rule):
    """All ranks drop the same values in dropout.

    What it detects:
        Before the training forward pass of the same step, the random generators of all ranks are
        in the same state, and the model has active dropout.

    Why it matters:
        Each rank draws the same mask for its rows. The masks of a step are then no longer
        independent, so averaging over ranks removes less of the dropout noise.

    Fires:
        Info when the generators are in the same state in `steps` recorded steps, and the state
        changes from step to step.

    Stays quiet:
        Different seeds, models without active dropout, ranks that do not average gradients, and
        models that are split over the ranks (tensor parallelism), which need equal masks.

    What to do:
        - When the model is created, seed each rank differently: `torch.manual_seed(seed + rank)`.
        - If all ranks must draw the same numbers elsewhere, use a `torch.Generator` there.

    Example:
        torch.manual_seed(0)             # on every rank: same weights, but also same masks
        model = DistributedDataParallel(net)
        torch.manual_seed(rank)          # different masks

    References:
        https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code = "DST957"
    title = "same dropout on ranks"
    needs = (
        Need(facts=(DropoutState, WorkerStarted)),
        Need(facts=(ReplicaDigests, Unwrapped, ReplicaBatch), optional=True),
    )
    compares = True

    steps: int = threshold(
        4, unit="recorded steps", source="chosen by hand: within the first 8 steps"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the states of the generators of all ranks, step by step."""
        parts = (window, *window.peers)
        if not window.peers and world_size(window) < 2:
            raise NotApplicable("the job has one rank")
        told = {part.worker: {s.step: s for s in part.seen(DropoutState)} for part in parts}
        if window.peers and not any(told.values()) and window.total_steps > 1:
            raise NotApplicable("no trained model has active dropout")
        shared = sorted(set.intersection(*(set(own) for own in told.values())))
        if len(told) < 2 or len(shared) < self.steps:
            raise NotEnoughData(f"needs {self.steps} steps in which all ranks have active dropout")
        if any(batch.in_parts for part in parts for batch in part.seen(ReplicaBatch)):
            raise NotApplicable(
                "the ranks hold parts of one model and must draw the same random numbers"
            )
        if not trains_one_model(window):
            raise NotApplicable("the ranks do not average the gradients of one model")
        lowest = told[min(told)]
        equal = [s for s in shared if len({own[s].digest for own in told.values()}) == 1]
        if len({lowest[step].digest for step in equal}) < self.steps:
            return []
        first = lowest[equal[0]]
        more = f" and {len(first.modules) - 1} more modules" if len(first.modules) > 1 else ""
        return [
            self.finding(
                window,
                severity=Severity.INFO,
                step=equal[0],
                last_step=equal[-1],
                count=len(equal),
                layers=first.modules,
                workers=tuple(sorted(told)),
                message=(
                    f"all {len(told)} ranks draw the same dropout masks in {first.modules[0]}"
                    f"{more}: their random generators were in the same state in each of "
                    f"{len(equal)} recorded steps"
                ),
                evidence={"workers": len(told), "steps": [*equal[:16]]},
                location=first.location,
            )
        ]
