"""RUN901: the job makes no more steps."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@dataclass(frozen=True)
class StalledTraining(Rule):
    """The job is alive, but makes no more steps.

    What it detects:
        A process that has trained and from which no step or evaluation was recorded for a long
        time.

    Why it matters:
        The job waits for data from a loader whose worker died, a lock, a collective that another
        process has left, or a disk. Meanwhile it blocks its devices, and no one is notified.

    Fires:
        Error when nothing was recorded for `seconds` seconds.

    Stays quiet:
        Jobs that have ended. Long evaluations with recorded forwards. When steps continue, the
        finding becomes info.

    What to do:
        - Find out where it waits: `py-spy dump --pid PID`, or `faulthandler.dump_traceback_later`
          in the script.
        - Set `timeout` of the data loader, so that a dead worker is an error.
        - In a job of several processes, see DST954: it names the worker that the others wait for.
        - If steps, evaluations or checkpoints are that slow, raise `seconds`.

    Example:
        DataLoader(dataset, num_workers=4, timeout=0)      # a dead worker: waits for ever
        DataLoader(dataset, num_workers=4, timeout=120)

    References:
        PyTorch, torch.utils.data.DataLoader, `timeout`, https://docs.pytorch.org/docs/stable/data.html
    """

    code = "RUN901"
    needs = (Need(facts=(WorkerEnded,), optional=True),)
    passes = True
    waits = True

    seconds: float = threshold(
        1800.0, unit="seconds", source="the default of SageMaker Debugger's StalledTrainingRule"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the clock with the time of the newest record."""
        if not window.total_steps:
            raise NotEnoughData("no step was seen")
        waited_s = window.now_s - window.seen_s
        if waited_s < self.seconds or any(window.seen(WorkerEnded)):
            return []
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=window.last_step,
                message=(
                    f"no step or evaluation for {waited_s:,.0f} s since step {window.last_step} "
                    f"(limit {self.seconds:g} s)"
                ),
                evidence={"value": waited_s, "limit": self.seconds},
            )
        ]
