"""DST958: ranks that each hold a part of one model get different batches."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import world_size


@rule(
    "DST958",
    title="batches differ on ranks",
    needs=[Need(facts=(ReplicaBatch, WorkerStarted))],
    compares=True,
)
def batches_differ_on_ranks(
    window: Window,
    *,
    steps: int = threshold(2, unit="recorded steps", source="chosen by hand: rules out chance"),
) -> Found | None:
    """Ranks that each hold a part of one model get different batches.

    What it detects:
        A model is split over ranks with tensor parallelism (`parallelize_module`), and the inputs
        of the model differ between these ranks at the same step.

    Why it matters:
        Each rank computes its part of every layer. With different inputs, the parts do not fit
        together, so outputs and gradients do not correspond to any real batch.

    Fires:
        Error if the inputs were equal in `steps` recorded steps before. Warning if they differ
        from the first recorded step on, because the script may split sequences itself.

    Stays quiet:
        Data parallel training, `fully_shard`, and meshes of more than one dimension.

    What to do:
        - Use the same sampler seed, and the same order, on all ranks of a tensor parallel group.
        - Draw augmentations from a generator with the same seed on these ranks.
        - Or load the batch on one rank, and broadcast it to the group.

    Example:
        parallelize_module(net, mesh, plan)
        generator = torch.Generator().manual_seed(rank)      # another order on each rank
        loader = DataLoader(data, shuffle=True, generator=generator)

    References:
        https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html
    """
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    groups: dict[tuple[int, int], dict[int, dict[int, ReplicaBatch]]] = {}
    for part in (window, *window.peers):
        for seen in part.seen(ReplicaBatch):
            if seen.in_parts:
                ranks = groups.setdefault((seen.lowest, seen.size), {})
                ranks.setdefault(part.worker, {})[seen.step] = seen
    if not groups and window.peers and window.total_steps > 1:
        raise NotApplicable("no model is split across ranks by tensor parallelism")
    whole = [ranks for (_, size), ranks in sorted(groups.items()) if len(ranks) == size]
    if not whole:
        raise NotEnoughData("no step has a recorded batch from every rank")
    for ranks in whole:
        shared = sorted(set.intersection(*(set(batches) for batches in ranks.values())))
        unequal = [s for s in shared if len({batches[s].digest for batches in ranks.values()}) > 1]
        if len(unequal) < steps:
            continue
        before = [step for step in shared if step < unequal[0]]
        return Found.of(
            [ranks[min(ranks)][step] for step in unequal],
            f"{len(ranks)} ranks hold parts of one model, but its inputs differed between them in "
            f"{len(unequal)} of {len(shared)} recorded steps",
            severity="error" if len(before) >= steps else "warning",
            step=before[-1] + 1 if before else unequal[0],
            workers=tuple(sorted(ranks)),
            evidence={"workers": len(ranks), "steps": [*unequal[:16]]},
        )
    return None
