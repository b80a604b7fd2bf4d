"""DST962: each rank splits the data in its own way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import SplitDrawn
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.packed import Ints, unpack
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import world_size


@rule(
    "DST962",
    title="splits differ on ranks",
    needs=[Need(facts=(SplitDrawn, WorkerStarted))],
    explains=("too_good_to_be_true",),
    compares=True,
)
def splits_differ_on_ranks(
    window: Window,
    *,
    share: float = threshold(
        0.05, unit="of the evaluated samples", source="chosen by hand: the remainder of a division"
    ),
    samples: int = threshold(10, unit="evaluated samples", source="chosen by hand"),
) -> Found | None:
    """Each rank splits the data in its own way.

    What it detects:
        Samples that one rank evaluates, and on which another rank trains, although each rank has
        disjoint parts for both. The training loaders divide their samples among the ranks with a
        `DistributedSampler`.

    Why it matters:
        The ranks train one model together, so it has been trained on most of the samples that it is
        evaluated on. The validation looks better than it is. `random_split` without a generator
        draws another split on each rank.

    Fires:
        Warning when at least `share` of the samples that a rank evaluates, and at least `samples`,
        are among the training samples of another rank, and none among its own.

    Stays quiet:
        Ranks whose datasets have different lengths, and loaders without a `DistributedSampler`, as
        in jobs in which each rank has its own part of the data.

    What to do:
        - PyTorch: Split with a fixed seed on every rank: `random_split(data, lengths,
          generator=torch.Generator().manual_seed(42))`.

    Example:
        train, valid = random_split(data, [1000, 200])           # differs from rank to rank
        generator = torch.Generator().manual_seed(42)
        train, valid = random_split(data, [1000, 200], generator=generator)

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
    """
    parts = (window, *window.peers)
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    splits = {part.worker: list(part.seen(SplitDrawn)) for part in parts}
    if sum(map(bool, splits.values())) < 2:
        raise NotEnoughData("no training and evaluation samples of several ranks were recorded")
    found: dict[int, tuple[int, SplitDrawn]] = {}
    for worker, held_out, trained in _pairs(splits):
        evaluated_N = unpack(held_out.evaluated)
        shared = len(np.intersect1d(evaluated_N, trained))
        if shared >= max(samples, share * len(evaluated_N)):
            found[worker] = max(found.get(worker, (0, held_out)), (shared, held_out), key=_count)
    if not found:
        return None
    worker = min(found)
    shared, split = found[worker]
    evaluated = len(unpack(split.evaluated))
    return Found.of(
        split,
        f"another rank trains on {shared} of the {evaluated} samples that rank {worker} evaluates "
        f"({split.eval_loader}): the ranks split the {split.size} samples of {split.data} "
        "differently",
        workers=tuple(sorted(found)),
        evidence={"shared": shared, "eval_samples": evaluated, "samples": split.size},
    )


def _count(one: tuple[int, SplitDrawn]) -> int:
    return one[0]


def _pairs(splits: dict[int, list[SplitDrawn]]) -> Iterator[tuple[int, SplitDrawn, Ints]]:
    """Yield each split of a rank with the training samples of another rank, of the same data."""
    for worker, own in splits.items():
        for split in own:
            if split.replicas < 2 or len(_both(split)):
                continue
            for other, theirs in splits.items():
                for one in theirs if other != worker else ():
                    same = (one.data, one.size, one.replicas) == (
                        split.data,
                        split.size,
                        split.replicas,
                    )
                    if same and not len(_both(one)):
                        yield worker, split, unpack(one.trained)


def _both(split: SplitDrawn) -> Ints:
    """Return the samples on which a rank trains, and that it evaluates."""
    both: Ints = np.intersect1d(unpack(split.trained), unpack(split.evaluated))
    return both
