"""RUN901: the job makes no step any more."""

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
    """The job lives, but makes no step any more.

    What it detects:
        A process that has trained and from which nothing was captured for a long time: no
        step, no evaluation.

    Why it matters:
        It waits for something that does not come: data from a loader whose worker died, a
        lock, a collective that another process has left, a disk. It holds its devices
        meanwhile, and no one is told.

    Fires:
        Error when nothing came for `seconds` seconds.

    Stays quiet:
        Jobs that have ended, long evaluations whose forwards are captured. When steps come
        again the finding becomes a note.

    What to do:
        - See where it waits: `py-spy dump --pid PID`, or `faulthandler.dump_traceback_later`
          set in the script.
        - Set `timeout` of the data loader, so that a dead worker is an error.
        - In a job of several processes DST954 names the worker that the others wait for.
        - Raise `seconds` where steps, evaluations or checkpoints are that slow.

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
                    f"nothing came for {waited_s:,.0f} s since step {window.last_step} "
                    f"(limit {self.seconds:g} s)"
                ),
                evidence={"value": waited_s, "limit": self.seconds},
            )
        ]
