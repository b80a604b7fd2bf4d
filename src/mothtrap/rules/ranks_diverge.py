"""DST951: parameters that must be the same on all workers are not."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._replicas import (
    Difference,
    differences,
    digests_averaged_by_hand,
    digests_of,
    named,
    world_size,
)


@dataclass(frozen=True)
class RanksDiverge(Rule):
    """Parameters that must be the same on all workers differ.

    What it detects:
        After the same step, the digest of a replicated parameter (of a model in
        `DistributedDataParallel`, or with a `Replicate` placement) differs between the workers that
        recorded one. Without a wrapper, parameters count as replicated if they were equal on all
        workers before the first step, and some module changed and stayed equal in the first two
        recorded steps: the script then averages gradients itself.

    Why it matters:
        The workers train different models. The saved checkpoint has the model of only one worker,
        and the averaged gradients fit none of the models.

    Fires:
        Error at the step after the last recorded step at which digests are equal, with the workers
        and the modules. Warning for models without a wrapper.

    Stays quiet:
        Parameters that each worker holds for itself: shards, models that no one averages,
        parameters that started different, parameters that become equal again (weights averaged now
        and then), parameters that the wrapper ignores by configuration.

    What to do:
        - Without a wrapper: average the gradient of every parameter, in every step.
        - Call the wrapped model itself, not its `.module`, so that gradients are averaged.
        - Change parameters (clipping, averaging, resetting) in the same way on all workers.
        - Load the same checkpoint on every worker, before the model is wrapped.
        - Step the optimizer on every worker in every step, even if a batch is empty.

    Example:
        model = DistributedDataParallel(net)
        if rank == 0:
            net.head.reset_parameters()   # only rank 0 has the new head

    References:
        https://docs.pytorch.org/docs/stable/notes/ddp.html
    """

    code = "DST951"
    title = "diverging ranks"
    needs = (
        Need(facts=(ReplicaDigests, WorkerStarted)),
        Need(facts=(UnwrappedDigests,), optional=True),
    )
    compares = True

    def check(self, window: Window) -> list[Finding]:
        """Compare the digests of all workers, step by step."""
        if not window.peers and world_size(window) < 2:
            raise NotApplicable("the job has one worker")
        wrapped, by_hand = digests_of(window), digests_averaged_by_hand(window)
        if window.peers and not (wrapped or by_hand) and window.total_steps > 1:
            raise NotApplicable("no recorded parameter must be the same on all workers")
        if len(wrapped) < 2 and not by_hand:
            raise NotEnoughData("needs digests of at least two workers")
        found = {
            Severity.ERROR: differences(wrapped) if len(wrapped) > 1 else Difference(),
            Severity.WARNING: differences(by_hand),
        }
        if not any(one.compared for one in found.values()):
            raise NotEnoughData("no step has digests of two workers")
        return [self._finding(window, severity, one) for severity, one in found.items()
                if one.steps][:1]  # fmt: skip

    def _finding(self, window: Window, severity: Severity, found: Difference) -> Finding:
        names = named(window, *found.odd)
        plural = "s" if len(found.odd) > 1 else ""
        since, last_equal = found.steps[0], found.last_equal
        when = ""
        if last_equal is not None and last_equal + 1 < since:
            when = f"; it became different between steps {last_equal + 1} and {since}"
        must = "must be" if severity is Severity.ERROR else "started"
        return self.finding(
            window,
            severity=severity,
            step=found.onset,
            last_step=found.steps[-1],
            count=len(found.steps),
            layers=found.layers,
            workers=found.odd,
            message=(
                f"{names} differ{'' if plural else 's'} from the others in "
                f"{found.layers[0]}, which {must} the same on all {found.workers}"
                if found.majority
                else f"{names} all differ from each other in {found.layers[0]}, which "
                f"{must} the same on all"
            )
            + when,
            evidence={
                "modules": len(found.layers),
                "modules_compared": found.compared,
                "last_equal_step": found.last_equal,
            },
        )
