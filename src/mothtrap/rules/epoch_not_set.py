"""DST960: a distributed sampler draws the same order in every epoch."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.replicas import OrderRepeated
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import world_size


@rule(
    "DST960",
    title="epoch not set",
    needs=[Need(facts=(OrderRepeated, WorkerStarted))],
    compares=True,
)
def epoch_not_set(
    window: Window,
    *,
    repeats: int = threshold(
        3, unit="passes in the same order", source="chosen by hand: two training phases may agree"
    ),
) -> Found | None:
    """A distributed sampler draws the same order in every epoch.

    What it detects:
        A `DistributedSampler` that shuffles, and whose epoch is not set: `set_epoch` is missing, or
        gets the same number again. Its order depends only on the seed and on the epoch.

    Why it matters:
        Every epoch has the same batches in the same order, and each rank trains on the same part of
        the data in all epochs. The gradients of a batch are correlated from epoch to epoch, which
        usually makes the model worse.

    Fires:
        Warning when `repeats` consecutive passes over the training data have the same order. A note
        for two passes.

    Stays quiet:
        Samplers with `shuffle=False`, loaders that are only evaluated, passes between which nothing
        is trained, and samplers of other classes.

    What to do:
        - Call `loader.sampler.set_epoch(epoch)` before each epoch.

    Example:
        loader = DataLoader(data, sampler=DistributedSampler(data))
        for epoch in range(10):
            loader.sampler.set_epoch(epoch)
            for x, y in loader: ...

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    parts = (window, *window.peers)
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    seen = [(part.worker, one) for part in parts for one in part.seen(OrderRepeated)]
    if not seen:
        return None
    most = max(one.passes for _, one in seen)
    loaders = sorted({one.loader for _, one in seen if one.passes == most})
    own = [(worker, one) for worker, one in seen if one.loader == loaders[0]]
    first = min((one for _, one in own), key=lambda one: one.step)
    return Found.of(
        first,
        f"the last {most} passes over the training data have the same order: the epoch of the "
        f"DistributedSampler is {first.epoch} in each of them",
        severity="warning" if most >= repeats else "info",
        last_step=max(one.step for _, one in own),
        workers=tuple(sorted({worker for worker, _ in own})),
        evidence={"passes": most, "epoch": first.epoch},
    )
