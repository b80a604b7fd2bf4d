"""DST961: the ranks of a job exchange no gradients."""

from __future__ import annotations

from collections.abc import Mapping

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import nearly_all, world_size

Records = Mapping[int, Mapping[int, UnwrappedDigests]]
"""By rank and step."""


@rule(
    "DST961",
    needs=[
        Need(facts=(UnwrappedDigests, WorkerStarted)),
        Need(facts=(ReplicaDigests,), optional=True),
    ],
    compares=True,
)
def ranks_train_apart(
    window: Window,
    *,
    steps: int = threshold(
        32, unit="steps", source="chosen by hand: weights averaged now and then are seen by then"
    ),
) -> Found | None:
    """The ranks of a job train separate models.

    What it detects:
        Ranks with the same model, without `DistributedDataParallel` or another wrapper, that
        exchange nothing in a training step, neither before nor after the backward pass, and whose
        parameters all differ.

    Why it matters:
        Each rank trains a model of its own on its part of the data. The saved checkpoint contains
        the model of one rank, and the other ranks work for nothing.

    Fires:
        Warning when no recorded step has a collective operation between its first forward and the
        optimizer, and the gradients and parameters of the ranks differ in all recorded steps, after
        at least `steps` steps.

    Stays quiet:
        Models in a wrapper (see STR711 and DST951). Ranks that exchange anything within a step, as
        for gradients that are averaged by hand, and for tensor or pipeline parallel models. Ranks
        whose parameters are equal at the beginning of any later step, because the script averages
        weights. Ranks whose models have different layers.

    What to do:
        - Wrap the model on every rank, `model = DistributedDataParallel(model)`, and call the
          wrapper in training. Accelerate: pass the model to `accelerator.prepare`.
        - If every rank is to train its own model, as in a search over settings, start independent
          jobs.

    Example:
        dist.init_process_group("gloo")
        model = Net()                              # never wrapped
        model = DistributedDataParallel(Net())

    References:
        https://docs.pytorch.org/docs/stable/notes/ddp.html
    """
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    parts = (window, *window.peers)
    if any(True for part in parts for _ in part.seen(ReplicaDigests)):
        raise NotApplicable("a wrapper averages gradients")
    told = {part.worker: {one.step: one for one in part.seen(UnwrappedDigests)} for part in parts}
    told = {worker: own for worker, own in told.items() if own}
    if window.peers and not told and window.total_steps > 1:
        raise NotApplicable("no parameter without a wrapper was recorded")
    shared = sorted(set.intersection(*(set(own) for own in told.values()))) if told else []
    if len(told) < max(2, nearly_all(world_size(window))) or not shared:
        raise NotEnoughData("needs the same steps of all ranks")
    if shared[-1] + 1 < steps:
        raise NotEnoughData(f"needs {steps} steps of all ranks, saw {shared[-1] + 1}")
    if not all(own[step].gradients for own in told.values() for step in shared):
        raise NotEnoughData("the gradients of a step were not recorded")
    if not _apart(told, shared) or _are_equal_again(told):
        return None
    first = told[min(told)][shared[0]]
    return Found.of(
        first,
        f"the {len(told)} ranks train separate models: no step exchanges gradients or weights "
        f"between them, and their parameters differ in all {len(shared)} recorded steps",
        last_step=shared[-1],
        count=len(shared),
        workers=tuple(sorted(told)),
        evidence={"workers": len(told), "steps": [*shared[:16]]},
    )


def _apart(told: Records, shared: list[int]) -> bool:
    """Return whether no recorded step exchanges anything, and all trained parameters differ."""
    first = next(iter(told.values()))
    names = set(first[shared[0]].digests)
    initial = first[min(first)].initial
    for step in shared:
        here = [own[step] for own in told.values()]
        if any(one.collectives != 0 or set(one.digests) != names for one in here):
            return False
        if len({one.gradients for one in here}) < len(here):
            return False
        for name in names:
            values = {one.digests[name] for one in here}
            if len(values) < len(here) and values != {initial.get(name)}:
                return False
    return True


def _are_equal_again(told: Records) -> bool:
    """Return whether the parameters are equal at the beginning of a step after the first."""
    begun: dict[int, list[str]] = {}
    for own in told.values():
        for step, digest in {k: v for one in own.values() for k, v in one.begun.items()}.items():
            begun.setdefault(step, []).append(digest)
    return any(step and len(set(seen)) < len(seen) for step, seen in begun.items())
