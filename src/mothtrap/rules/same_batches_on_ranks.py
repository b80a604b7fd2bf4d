"""DST953: all ranks that share a model get the same batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

Batches = dict[int, dict[int, ReplicaBatch]]
"""Batches passed to ranks: by rank, by step."""


@frozen
class SameBatchesOnRanks(Rule):
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
        - Give each rank its part of the data: `DataLoader(data, sampler=sampler)` with a
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

    code = "DST953"
    needs = (Need(facts=(ReplicaBatch, WorkerStarted)),)
    compares = True

    batches: int = threshold(
        4, unit="consecutive batches, all different", source="chosen by hand: the first 8 steps"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the inputs of all ranks of a group, step by step."""
        parts = (window, *window.peers)
        sizes = [start.world_size for part in parts for start in part.seen(WorkerStarted)]
        if not window.peers and max(sizes, default=1) < 2:
            raise NotApplicable("the job has one rank")
        groups = _groups(parts)
        if window.peers and not groups and window.total_steps > 1:
            raise NotApplicable("no batches of a model in DistributedDataParallel were recorded")
        whole = [own for (_, size), own in sorted(groups.items()) if len(own) == size]
        compared = [steps for own in whole if (steps := _steps_of_all(own))]
        if max(map(len, compared), default=0) < self.batches:
            raise NotEnoughData(f"needs {self.batches} batches from all ranks")
        found = [(own, run) for own in whole if (run := self._shared(own))]
        return [self._finding(window, *found[0])] if found else []

    def _shared(self, own: Batches) -> list[int]:
        """Return the first consecutive steps in which all ranks got equal, changing batches."""
        running: list[int] = []
        for step in _steps_of_all(own):
            if len({batches[step].digest for batches in own.values()}) > 1:
                if self._is_enough(own, running):
                    break
                running = []
            else:
                running.append(step)
        return running if self._is_enough(own, running) else []

    def _is_enough(self, own: Batches, steps: Iterable[int]) -> bool:
        one = next(iter(own.values()))
        return len({one[step].digest for step in steps}) >= self.batches

    def _finding(self, window: Window, own: Batches, steps: list[int]) -> Finding:
        lowest = own[min(own)]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=steps[0],
            last_step=steps[-1],
            count=len(steps),
            workers=tuple(sorted(own)),
            message=(
                f"all {len(own)} ranks train on the same batches: the model's inputs were equal "
                f"on all ranks in each of {len(steps)} sampled steps"
            ),
            evidence={"workers": len(own), "steps": list(steps[:16])},
            location=lowest[steps[0]].location,
        )


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
