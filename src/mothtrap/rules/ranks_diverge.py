"""DST951: parameters that must be the same on all ranks are not."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import LATEST_ONSET, EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.window import Window
from mothtrap.rules._replicas import (
    Difference,
    differences,
    digests_averaged_by_hand,
    digests_of,
    named,
    world_size,
)


@frozen
class RanksDiverge(Rule):
    """Parameters that must be the same on all ranks differ.

    What it detects:
        After the same step, the digest of a replicated parameter (of a model in
        `DistributedDataParallel`, or with a `Replicate` placement) differs between the ranks that
        recorded one. Without a wrapper, parameters count as replicated if they were equal on all
        ranks before the first step, and some module changed and stayed equal in the first two
        recorded steps: the script then averages gradients itself.

    Why it matters:
        The ranks train different models. The saved checkpoint contains the model of only one rank,
        and the averaged gradients fit none of the models.

    Fires:
        Error at the step after the last recorded step at which digests are equal. The finding
        names the ranks and the modules. Warning for models without a wrapper.

    Stays quiet:
        Parameters that each rank holds for itself: shards, models that are not averaged, parameters
        that differed from the start, parameters that become equal again (weights averaged now and
        then), parameters that the wrapper ignores by configuration.

    What to do:
        - Change parameters in the same way on all ranks: look for code under `if rank == ...` that
          loads, resets, averages, or clips them.
        - Load the same checkpoint on every rank, before the model is wrapped.
        - Step the optimizer on every rank in every step, even if a batch is empty.
        - Call the wrapped model itself, not its `.module`, so that gradients are averaged.
        - Without a wrapper: average the gradient of every parameter, in every step.

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
    explains = ("loss_diverging", "loss_spike")

    def check(self, window: Window) -> list[Finding]:
        """Compare the digests of all ranks, step by step."""
        if not window.peers and world_size(window) < 2:
            raise NotApplicable("the job has one rank")
        wrapped, by_hand = digests_of(window), digests_averaged_by_hand(window)
        if window.peers and not (wrapped or by_hand) and window.total_steps > 1:
            raise NotApplicable("no recorded parameter has to be equal on all ranks")
        if len(wrapped) < 2 and not by_hand:
            raise NotEnoughData("needs digests from at least two ranks")
        found = {
            Severity.ERROR: differences(wrapped) if len(wrapped) > 1 else Difference(),
            Severity.WARNING: differences(by_hand),
        }
        if not any(one.compared for one in found.values()):
            raise NotEnoughData("no step has digests from two ranks")
        return [self._finding(window, severity, one) for severity, one in found.items()
                if one.steps][:1]  # fmt: skip

    def _finding(self, window: Window, severity: Severity, found: Difference) -> Finding:
        names = named(window, *found.odd)
        since, layer = found.steps[0], layer_in_words(found.layers[0])
        wrapped = severity is Severity.ERROR
        must = "must be equal" if wrapped else "started equal"
        evidence: dict[str, EvidenceValue] = {
            "modules": len(found.layers),
            "modules_compared": found.compared,
            "last_equal_step": found.last_equal,
        }
        if found.onset < since:
            evidence[LATEST_ONSET] = since
        fixes = self.fixes(window)
        return self.finding(
            window,
            severity=severity,
            step=found.onset,
            last_step=found.steps[-1],
            count=len(found.steps),
            layers=found.layers,
            workers=found.odd,
            message=(
                f"the parameters of {layer} on {names} differ from those on "
                f"{'rank 0' if found.workers == 2 else 'the other ranks'}; they {must} on "
                f"{'both' if found.workers == 2 else f'all {found.workers}'} ranks"
                if found.majority
                else f"the parameters of {layer} are different on each of the {names}; they "
                f"{must} on all ranks"
            ),
            evidence=evidence,
            fixes=fixes[:-1] if wrapped else (fixes[-1], *fixes[:-1]),
        )
