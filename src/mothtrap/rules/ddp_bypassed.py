"""STR711: a model wrapped in `DistributedDataParallel` trains without the wrapper."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests, WrapperBypassed
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._replicas import differences, digests_of


@frozen
class DdpBypassed(Rule):
    """A model wrapped in `DistributedDataParallel` trains without the wrapper.

    What it detects:
        Steps on several ranks in which the wrapper averages no gradients, because the script
        calls the inner model directly, or because every forward call runs under `no_sync()`.

    Why it matters:
        The wrapper averages gradients only if its own `forward` is called. Without the wrapper
        each rank trains a separate model on its share of the data.

    Fires:
        Warning from the first such step, because the script may average gradients by hand. Error
        once the parameters of the ranks differ (see DST951).

    Stays quiet:
        For forward calls of the inner model in evaluation or without gradients, extra forward
        calls in a step that also calls the wrapper, accumulation under `no_sync()` whose last
        forward call is outside of it, and jobs with one rank.

    What to do:
        - Call the wrapper, `model(x)`, and not `model.module(x)` or the unwrapped model.
        - To call other methods (`encode`, `loss`), write a `forward` that dispatches to them.
        - Run the last micro-batch before the step outside of `no_sync()`.

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
        """Find steps without the wrapper on any rank."""
        windows = (window, *window.peers)
        sizes = [start.world_size for part in windows for start in part.seen(WorkerStarted)]
        if not sizes:
            raise NotEnoughData("no rank has reported the number of ranks")
        if max(sizes) < 2:
            raise NotApplicable("the job has one rank")
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
            what = f"{first.called} was called directly instead of through its {first.wrapper}"
        else:
            what = f"every forward call of the {first.wrapper} ran under no_sync()"
        effect = (
            "and the parameters of the ranks differ"
            if differ
            else "so the wrapper did not average gradients"
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
            message=f"{what}, {effect}",
            evidence={
                "steps": latest.steps,
                "world_size": first.world_size,
                "parameters_differ": differ if len(digests) > 1 else None,
            },
            location=first.location,
            fixes=fixes if first.called else (fixes[2], *fixes[:2]),
        )
