"""DST953: all ranks that share a model get the same batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

Batches = dict[int, dict[int, ReplicaBatch]]
"""Batches passed to ranks: by rank, by step."""


@rule("DST953", needs=[Need(facts=(ReplicaBatch, WorkerStarted))], compares=True)
def same_batches_on_ranks(
    window: Window,
    *,
    batches: int = threshold(
        4, unit="consecutive batches, all different", source="chosen by hand: the first 8 steps"
    ),
) -> Found | None:
    """All ranks that average their gradients train on the same batches.

    What it detects:
        In the sampled steps, the inputs of a model in `DistributedDataParallel` are equal, bit by
        bit, on all ranks over which it averages.

    Why it matters:
        The average of equal gradients is the same gradient. Many ranks do the work of one, an
        epoch takes as long as with a single rank, and a learning rate that was raised for the
        larger batch is too high.

    Fires:
        Warning when `batches` consecutive sampled batches, all different, were equal on all
        ranks.

    Stays quiet:
        The same batch again and again. Equal batches on only some ranks. Models without
        `DistributedDataParallel`: tensor and pipeline parallel models share batches. Ranks that
        get the same samples but augment them differently.

    What to do:
        - PyTorch: Give each rank its part of the data: `DataLoader(data, sampler=sampler)` with a
          `DistributedSampler(data)`, and `sampler.set_epoch(epoch)` before each epoch.
        - If batches are drawn by hand, or by an `IterableDataset`, take every `world_size`-th
          sample starting at `rank`, or seed with `seed + rank`.

    Example:
        torch.manual_seed(0)                                # on every rank
        loader = DataLoader(data, shuffle=True)             # the same order everywhere
        loader = DataLoader(data, sampler=DistributedSampler(data))

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    parts = (window, *window.peers)
    sizes = [start.world_size for part in parts for start in part.seen(WorkerStarted)]
    if not window.peers and max(sizes, default=1) < 2:
        raise NotApplicable("the job has one rank")
    groups = _groups(parts)
    if window.peers and not groups and window.total_steps > 1:
        raise NotApplicable("no batches of a model in DistributedDataParallel were recorded")
    whole = [own for (_, size), own in sorted(groups.items()) if len(own) == size]
    if max((len(_steps_of_all(own)) for own in whole), default=0) < batches:
        raise NotEnoughData(f"needs {batches} batches from all ranks")
    for own in whole:
        equal = _equal_batches(own, batches)
        if equal:
            return Found.of(
                equal,
                f"all {len(own)} ranks train on the same batches: the model's inputs were equal on "
                f"all ranks in each of {len(equal)} sampled steps",
                workers=tuple(sorted(own)),
                evidence={"workers": len(own), "steps": [one.step for one in equal[:16]]},
            )
    return None


def _groups(parts: Iterable[Window]) -> Mapping[tuple[int, int], Batches]:
    """Return the ranks that average gradients together, by lowest rank and number."""
    found: dict[tuple[int, int], Batches] = {}
    for part in parts:
        for seen in part.seen(ReplicaBatch):
            if seen.in_parts:
                continue  # these workers need the same batches
            own = found.setdefault((seen.lowest, seen.size), {})
            own.setdefault(part.worker, {})[seen.step] = seen
    return found


def _steps_of_all(own: Batches) -> list[int]:
    return sorted(set.intersection(*(set(batches) for batches in own.values())))


def _equal_batches(own: Batches, least: int) -> list[ReplicaBatch]:
    """Return the first consecutive batches that are equal on all ranks, if `least` differ."""
    running: list[ReplicaBatch] = []
    for step in _steps_of_all(own):
        if len({batches[step].digest for batches in own.values()}) == 1:
            running.append(own[min(own)][step])
        elif len({one.digest for one in running}) >= least:
            break
        else:
            running = []
    return running if len({one.digest for one in running}) >= least else []
