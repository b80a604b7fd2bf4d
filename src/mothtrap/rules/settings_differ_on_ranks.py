"""DST955: ranks that train one model have different settings."""

from __future__ import annotations

from collections.abc import Mapping

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests, WorkerSettings
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._replicas import trains_one_model, world_size

Settings = Mapping[int, WorkerSettings]
"""Settings of the ranks after one step, by rank."""
UNSET = "-"


@frozen
class SettingsDifferOnRanks(Rule):
    """Ranks that train one model have different settings.

    What it detects:
        After the same step, ranks that average their gradients differ in a learning rate, in their
        frozen parameters, or in the parameters that share a tensor.

    Why it matters:
        A different learning rate makes the models of the ranks drift apart. A parameter that is
        frozen on one rank contributes nothing to the average, so the other ranks train it with a
        smaller gradient. If a weight is tied on one rank only, that rank has a different model.

    Fires:
        Error at the step after the last recorded step with equal settings. The finding names the
        ranks and the parameters.

    Stays quiet:
        Ranks that do not average gradients, such as separate training runs in one job, and
        ranks whose parameters have different names, such as the stages of a pipeline.

    What to do:
        - Create the model, its optimizer, and its schedule with the same code on every rank,
          without `if rank == ...`.
        - Call the schedule on every rank, at the same steps.
        - Freeze and tie parameters before the model is wrapped, on every rank.

    Example:
        model = DistributedDataParallel(net)
        lr = 0.1 if rank == 0 else 0.01
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    References:
        https://docs.pytorch.org/docs/stable/notes/ddp.html
    """

    code = "DST955"
    title = "settings differ on ranks"
    needs = (
        Need(facts=(WorkerSettings, WorkerStarted)),
        Need(facts=(ReplicaDigests, UnwrappedDigests), optional=True),
    )
    explains = ("ranks_diverge",)
    compares = True

    def check(self, window: Window) -> list[Finding]:
        """Compare the settings of all ranks, step by step."""
        parts = (window, *window.peers)
        if not window.peers and world_size(window) < 2:
            raise NotApplicable("the job has one rank")
        told = {part.worker: {s.step: s for s in part.seen(WorkerSettings)} for part in parts}
        steps = sorted(set.intersection(*(set(own) for own in told.values())))
        if len(told) < 2 or not steps:
            raise NotEnoughData("no step has settings from every rank")
        if len({own[steps[0]].names for own in told.values()}) > 1:
            raise NotApplicable("the parameters have different names on the ranks")
        if not trains_one_model(window):
            raise NotApplicable("the ranks do not average the gradients of one model")
        by_step = {step: {rank: own[step] for rank, own in told.items()} for step in steps}
        differ = [step for step in steps if _first_difference(by_step[step])]
        return [self._finding(window, steps, differ, by_step)] if differ else []

    def _finding(
        self, window: Window, steps: list[int], differ: list[int], by_step: Mapping[int, Settings]
    ) -> Finding:
        found = _first_difference(by_step[differ[0]])
        assert found is not None
        what, names, values = found
        place = steps.index(differ[0])
        shown = ", ".join(f"{value} on rank {rank}" for rank, value in values.items())
        more = f" and {len(names) - 1} more parameters" if len(names) > 1 else ""
        usual = max(values.values(), key=list(values.values()).count)
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=steps[place - 1] + 1 if place else differ[0],
            last_step=differ[-1],
            count=len(differ),
            layers=names,
            workers=tuple(rank for rank, value in values.items() if value != usual),
            message=f"{what} of {names[0]}{more} differs between ranks: {shown}",
            evidence={"what": what, "parameters": len(names), "values": shown},
        )


def _first_difference(settings: Settings) -> tuple[str, tuple[str, ...], dict[int, str]] | None:
    """Return the different setting, its parameters, and the value of the first by rank."""
    rates = {
        rank: {name: f"{rate:g}" for name, rate in own.rates.items()}
        for rank, own in settings.items()
    }
    frozen = {rank: dict.fromkeys(own.frozen, "frozen") for rank, own in settings.items()}
    tied = {
        rank: {name: f"tied to {other}" for name, other in own.tied.items()}
        for rank, own in settings.items()
    }
    shared = set.intersection(*(set(own) for own in rates.values()))
    sorts = (
        ("the learning rate", {r: {n: own[n] for n in shared} for r, own in rates.items()}, UNSET),
        ("the training", frozen, "trained"),
        ("the tensor", tied, "separate"),
    )
    for what, by_worker, default in sorts:
        every = sorted({name for own in by_worker.values() for name in own})
        names = tuple(n for n in every if len({own.get(n) for own in by_worker.values()}) > 1)
        if names:
            return what, names, {r: own.get(names[0], default) for r, own in by_worker.items()}
    return None
