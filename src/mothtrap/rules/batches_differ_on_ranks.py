"""DST958: ranks that each hold a part of one model get different batches."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._replicas import world_size


@frozen
class BatchesDifferOnRanks(Rule):
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

    code = "DST958"
    title = "batches differ on ranks"
    needs = (Need(facts=(ReplicaBatch, WorkerStarted)),)
    compares = True

    steps: int = threshold(2, unit="recorded steps", source="chosen by hand: rules out chance")

    def check(self, window: Window) -> list[Finding]:
        """Compare the inputs of the ranks in each group, step by step."""
        if not window.peers and world_size(window) < 2:
            raise NotApplicable("the job has one rank")
        groups: dict[tuple[int, int], dict[int, dict[int, ReplicaBatch]]] = {}
        for part in (window, *window.peers):
            for seen in part.seen(ReplicaBatch):
                if seen.in_parts:
                    own = groups.setdefault((seen.lowest, seen.size), {})
                    own.setdefault(part.worker, {})[seen.step] = seen
        if not groups and window.peers and window.total_steps > 1:
            raise NotApplicable("no model is split across ranks by tensor parallelism")
        whole = [own for (_, size), own in sorted(groups.items()) if len(own) == size]
        if not whole:
            raise NotEnoughData("no step has a recorded batch from every rank")
        found = [finding for own in whole if (finding := self._compared(window, own))]
        return found[:1]

    def _compared(self, window: Window, own: dict[int, dict[int, ReplicaBatch]]) -> Finding | None:
        steps = sorted(set.intersection(*(set(batches) for batches in own.values())))
        unequal = [s for s in steps if len({batches[s].digest for batches in own.values()}) > 1]
        if len(unequal) < self.steps:
            return None
        before = [step for step in steps if step < unequal[0]]
        return self.finding(
            window,
            severity=Severity.ERROR if len(before) >= self.steps else Severity.WARNING,
            step=before[-1] + 1 if before else unequal[0],
            last_step=unequal[-1],
            count=len(unequal),
            workers=tuple(sorted(own)),
            message=(
                f"{len(own)} ranks hold parts of one model, but its inputs differed between "
                f"them in {len(unequal)} of {len(steps)} recorded steps"
            ),
            evidence={"workers": len(own), "steps": [*unequal[:16]]},
            location=own[min(own)][unequal[0]].location,
        )
