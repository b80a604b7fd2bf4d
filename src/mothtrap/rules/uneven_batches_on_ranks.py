"""DST959: ranks average over batches of different sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import BatchRows, ReplicaBatch, ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import trains_one_model, world_size

Changes = Mapping[int, list[BatchRows]]
"""The steps at which the number of rows changed, by rank, ascending."""


@rule(
    "DST959",
    title="uneven batches on ranks",
    severity="info",
    needs=[
        Need(facts=(BatchRows, WorkerStarted)),
        Need(facts=(ReplicaBatch, ReplicaDigests, UnwrappedDigests), optional=True),
    ],
    compares=True,
)
def uneven_batches_on_ranks(
    window: Window,
    *,
    share: float = threshold(
        0.5, unit="of the steps", source="chosen by hand: a more frequent difference is on purpose"
    ),
    ratio: float = threshold(
        1.5, unit="times the rows", source="chosen by hand: batches of 3 and 2 rows"
    ),
) -> Found | None:
    """Ranks average over batches of different sizes.

    What it detects:
        In some steps, such as the last step of an epoch, the batch of one rank has fewer rows than
        the batch of another, while the ranks average their gradients.

    Why it matters:
        Each rank averages over its own rows, and the result is averaged over the ranks. A row
        in a small batch then counts more than a row in a large one. A step with very few rows on
        one rank is noisy.

    Fires:
        Info when batch sizes differ in at most `share` of the steps, and one batch has `ratio`
        times the rows of another.

    Stays quiet:
        Batches of equal size. Batch sizes that differ in most steps, as when batches are filled by
        number of tokens. Ranks that do not average gradients.

    What to do:
        - PyTorch: Leave out the last batch: `DataLoader(..., drop_last=True)`, or use a
          `DistributedSampler`, which gives every rank the same number of rows.
        - Or weight the loss of each rank: multiply it by its rows and the number of ranks, and
          divide by the rows of all ranks.

    Example:
        rows = data[rank * 64 : (rank + 1) * 64]      # 100 rows: 64 on rank 0, 36 on rank 1
        loss = criterion(model(rows), targets)        # mean over 64 and over 36 rows

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    parts = (window, *window.peers)
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    told = {part.worker: list(part.seen(BatchRows)) for part in parts}
    if len(told) < 2 or not all(told.values()):
        raise NotEnoughData("the batch sizes of two ranks are not known")
    if not trains_one_model(window):
        raise NotApplicable("the ranks do not average the gradients of one model")
    stretches = _stretches(told, min(part.last_step for part in parts) + 1)
    steps = sum(stop - start for start, stop in stretches)
    differing = [(a, b) for a, b in stretches if len(set(_rows_at(told, a).values())) > 1]
    uneven = [(a, b) for a, b in differing if _is_uneven(_rows_at(told, a), ratio)]
    if not uneven or sum(stop - start for start, stop in differing) > share * steps:
        return None
    first, count = uneven[0][0], sum(stop - start for start, stop in uneven)
    rows = _rows_at(told, first)
    small, large = min(rows, key=rows.__getitem__), max(rows, key=rows.__getitem__)
    return Found(
        step=first,
        last_step=uneven[-1][1] - 1,
        count=count,
        workers=tuple(rank for rank, own in rows.items() if own == rows[small]),
        message=(
            f"rank {small} averages over {rows[small]} rows, rank {large} over {rows[large]}: "
            f"unless the loss is weighted, a row on rank {small} counts "
            f"{rows[large] / rows[small]:.3g} times as much"
        ),
        evidence={"rows": rows[small], "most_rows": rows[large], "steps": count},
        location=told[small][0].location,
    )


def _is_uneven(rows: Mapping[int, int], ratio: float) -> bool:
    return min(rows.values()) > 0 and max(rows.values()) >= ratio * min(rows.values())


def _stretches(told: Changes, end: int) -> list[tuple[int, int]]:
    """Return the stretches of steps without a change on any rank: first step, step after."""
    steps = sorted({seen.step for own in told.values() for seen in own if seen.step < end})
    return list(zip(steps, [*steps[1:], end], strict=True))


def _rows_at(told: Changes, step: int) -> dict[int, int]:
    """Return the rows of each rank at a step; 0 before its first record."""
    found = {}
    for worker, own in told.items():
        place = bisect_right(own, step, key=lambda seen: seen.step) - 1
        found[worker] = own[place].rows if place >= 0 else 0
    return found
