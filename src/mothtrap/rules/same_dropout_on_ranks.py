"""DST957: all ranks drop the same values in dropout."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import DropoutState, ReplicaBatch, ReplicaDigests
from mothtrap.core.facts.replicas import UnwrappedDigests as Unwrapped
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import trains_one_model, world_size


@rule(
    "DST957",
    title="same dropout on ranks",
    severity="info",
    needs=[
        Need(facts=(DropoutState, WorkerStarted)),
        Need(facts=(ReplicaDigests, Unwrapped, ReplicaBatch), optional=True),
    ],
    compares=True,
)
def same_dropout_on_ranks(
    window: Window,
    *,
    steps: int = threshold(
        4, unit="recorded steps", source="chosen by hand: within the first 8 steps"
    ),
) -> Found | None:
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
        - PyTorch: When the model is created, seed each rank differently: `torch.manual_seed(seed +
          rank)`.
        - PyTorch: If all ranks must draw the same numbers elsewhere, use a `torch.Generator` there.

    Example:
        torch.manual_seed(0)             # on every rank: same weights, but also same masks
        model = DistributedDataParallel(net)
        torch.manual_seed(rank)          # different masks

    References:
        https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    parts = (window, *window.peers)
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    told = {part.worker: {s.step: s for s in part.seen(DropoutState)} for part in parts}
    if window.peers and not any(told.values()) and window.total_steps > 1:
        raise NotApplicable("no trained model has active dropout")
    shared = sorted(set.intersection(*(set(own) for own in told.values())))
    if len(told) < 2 or len(shared) < steps:
        raise NotEnoughData(f"needs {steps} steps in which all ranks have active dropout")
    if any(batch.in_parts for part in parts for batch in part.seen(ReplicaBatch)):
        raise NotApplicable(
            "the ranks hold parts of one model and must draw the same random numbers"
        )
    if not trains_one_model(window):
        raise NotApplicable("the ranks do not average the gradients of one model")
    lowest = told[min(told)]
    equal = [s for s in shared if len({own[s].digest for own in told.values()}) == 1]
    if len({lowest[step].digest for step in equal}) < steps:
        return None
    first = lowest[equal[0]]
    more = f" and {len(first.modules) - 1} more modules" if len(first.modules) > 1 else ""
    return Found.of(
        [lowest[step] for step in equal],
        f"all {len(told)} ranks draw the same dropout masks in {first.modules[0]}{more}: their "
        f"random generators were in the same state in each of {len(equal)} recorded steps",
        layers=first.modules,
        workers=tuple(sorted(told)),
        evidence={"workers": len(told), "steps": [*equal[:16]]},
    )
