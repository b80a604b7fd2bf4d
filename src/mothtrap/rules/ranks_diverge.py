"""DST951: parameters that must be the same on all ranks are not."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import LATEST_ONSET, EvidenceValue, Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.texts import layer_in_words
from mothtrap.core.window import Window
from mothtrap.rules._replicas import (
    Difference,
    differences,
    digests_averaged_by_hand,
    digests_of,
    digests_started_apart,
    named,
    world_size,
)


@rule(
    "DST951",
    title="diverging ranks",
    needs=[
        Need(facts=(ReplicaDigests, WorkerStarted)),
        Need(facts=(UnwrappedDigests, ScriptFailed), optional=True),
    ],
    explains=("loss_diverging", "loss_spike"),
    compares=True,
)
def ranks_diverge(window: Window) -> Found | None:
    """Parameters that must be the same on all ranks differ.

    What it detects:
        After the same step, the digest of a replicated parameter (of a model in
        `DistributedDataParallel`, or with a `Replicate` placement) differs between the ranks that
        recorded one. Without a wrapper, parameters count as replicated if they were equal on all
        ranks before the first step, and some module changed and stayed equal in the first two
        recorded steps: the script then averages gradients itself. Also parameters without a wrapper
        that get equal gradients on all ranks, but had different values before the first step.

    Why it matters:
        The ranks train different models. The saved checkpoint contains the model of only one rank,
        and the averaged gradients fit none of the models.

    Fires:
        Error at the step after the last recorded step at which digests are equal. The finding
        names the ranks and the modules. Warning for models without a wrapper.

    Stays quiet:
        Parameters that each rank holds for itself: shards, models that are not averaged, parameters
        that differed from the start, parameters that become equal again (weights averaged now and
        then), parameters that the wrapper ignores by configuration. Jobs that end because the
        wrapper could not average gradients: the explanation of the exception names the cause.

    What to do:
        - Change parameters in the same way on all ranks: look for code under `if rank == ...` that
          loads, resets, averages, or clips them.
        - Load the same checkpoint on every rank, before the model is wrapped.
        - Step the optimizer on every rank in every step, even if a batch is empty.
        - Call the wrapped model itself, not its `.module`, so that gradients are averaged.
        - Without a wrapper: average the gradient of every parameter, in every step.
        - Without a wrapper: give all ranks the same initial weights. Seed them equally, or
          broadcast the parameters of rank 0 first: `dist.broadcast(parameter.data, src=0)`.

    Example:
        model = DistributedDataParallel(net)
        if rank == 0:
            net.head.reset_parameters()   # only rank 0 has the new head

    References:
        https://docs.pytorch.org/docs/stable/notes/ddp.html
    """
    if not window.peers and world_size(window) < 2:
        raise NotApplicable("the job has one rank")
    ended = [seen for part in (window, *window.peers) for seen in part.seen(ScriptFailed)]
    if any(seen.kind == "replicas" for seen in ended):
        raise NotApplicable("the wrapper could not average all gradients, and raised an exception")
    wrapped, by_hand = digests_of(window), digests_averaged_by_hand(window)
    apart = differences(digests_started_apart(window))
    if apart.steps and not wrapped:
        return _started_apart(window, apart)
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
    for severity, one in found.items():
        if one.steps:
            return _found(window, severity, one)
    return None


def _started_apart(window: Window, found: Difference) -> Found:
    return Found(
        severity=Severity.WARNING,
        step=found.steps[0],
        last_step=found.steps[-1],
        count=len(found.steps),
        layers=found.layers,
        workers=found.odd,
        message=(
            f"all ranks get the same gradients, but they started from different weights: the "
            f"parameters of {layer_in_words(found.layers[0])} on {named(window, *found.odd)} differ"
        ),
        evidence={"modules": len(found.layers), "modules_compared": found.compared},
        fixes=(5, 1),
    )


def _found(window: Window, severity: Severity, found: Difference) -> Found:
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
    return Found(
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
            else f"the parameters of {layer} are different on each of the {names}; they {must} on "
            "all ranks"
        ),
        evidence=evidence,
        fixes=(0, 1, 2, 3) if wrapped else (4, 0, 1, 2, 3),
    )
