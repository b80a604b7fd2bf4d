"""STR711: a model is trained past the wrapper that averages its gradients."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, WrapperBypassed
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._replicas import differences, digests_of


@dataclass(frozen=True)
class DdpBypassed(Rule):
    """A model in `DistributedDataParallel` is trained without it.

    What it detects:
        Steps on several workers in which no forward of the wrapper ran with the averaging
        of gradients on, but a forward of the model inside it did, or only forwards under
        `no_sync()`.

    Why it matters:
        The wrapper averages gradients only in backwards of its own forward. Without it
        every worker goes its own way with its share of the data: several small trainings
        that know nothing of each other.

    Fires:
        Warning from the first such step on: gradients may be averaged by hand. Error once
        the parameters of the workers differ (see DST951).

    Stays quiet:
        Forwards of the inner model in evaluation or without gradients, extra forwards in
        a step that also has one of the wrapper, accumulation under `no_sync()` whose last
        forward is outside of it, jobs of one worker.

    What to do:
        - Call the wrapped model: `model(x)`, not `model.module(x)` or the name it had before.
        - Give methods other than `forward` (`encode`, `loss`) a forward that dispatches to them.
        - Leave `no_sync()` for the last micro-batch before the step.

    Example:
        model = DistributedDataParallel(net)
        loss = criterion(net(x), y)      # model(x) would average the gradients
        loss.backward()

    References:
        https://docs.pytorch.org/docs/stable/notes/ddp.html
    """

    code = "STR711"
    title = "DDP bypassed"
    needs = (Need(facts=(WrapperBypassed, ReplicaDigests, WorkerStarted)),)
    explains = ("ranks_diverge",)
    compares = True

    def check(self, window: Window) -> list[Finding]:
        """Look for steps past the wrapper, on any worker."""
        windows = (window, *window.peers)
        sizes = [start.world_size for part in windows for start in part.seen(WorkerStarted)]
        if not sizes:
            raise NotEnoughData("no worker has said how many there are")
        if max(sizes) < 2:
            raise NotApplicable("the job has one worker")
        bypassed = {
            part.worker: seen for part in windows if (seen := tuple(part.seen(WrapperBypassed)))
        }
        return [self._finding(window, bypassed)] if bypassed else []

    def _finding(self, window: Window, bypassed: dict[int, tuple[WrapperBypassed, ...]]) -> Finding:
        first = min((seen[0] for seen in bypassed.values()), key=lambda seen: seen.step)
        latest = max((seen[-1] for seen in bypassed.values()), key=lambda seen: seen.steps)
        digests = digests_of(window)
        differ = len(digests) > 1 and bool(differences(digests).steps)
        if first.called:
            what = f"the forward of {first.called} ran instead of that of its {first.wrapper}"
        else:
            what = f"every forward of the {first.wrapper} ran under no_sync()"
        effect = (
            "and the parameters of the workers differ"
            if differ
            else "so that gradients were not averaged by it"
        )
        fixes = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.ERROR if differ else Severity.WARNING,
            step=first.step,
            last_step=latest.step,
            count=latest.steps,
            layers=(first.called,) if first.called else (),
            workers=tuple(sorted(bypassed)),
            message=f"{what} from step {first.step}, {effect}",
            evidence={
                "steps": latest.steps,
                "world_size": first.world_size,
                "parameters_differ": differ if len(digests) > 1 else None,
            },
            location=first.location,
            fixes=fixes if first.called else (fixes[2], *fixes[:2]),
        )
