"""RUN901: the job is running, but training makes no progress."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class StalledTraining(Rule):
    """The job is running, but training makes no progress.

    What it detects:
        A process that was training, but has recorded no step or evaluation for a long time.

    Why it matters:
        The job waits for data from a loader whose worker died, a lock, a collective that another
        process has left, or a disk. Meanwhile it blocks its devices, and no one is notified.

    Fires:
        Error when nothing was recorded for `seconds` seconds. Warning when an input pipeline of
        `tf.data` has worked on the same file and record for `input_seconds` seconds.

    Stays quiet:
        Jobs that have ended. Long evaluations with recorded forward passes. When steps continue,
        the finding becomes info.

    What to do:
        - Look at the file or the function that the message names: a network disk, a named pipe
          without a writer, or a lock stops a pipeline without an error.
        - If it names neither, find out where the job waits: `py-spy dump --pid PID`, or
          `faulthandler.dump_traceback_later` in the script.
        - Set `timeout` of the data loader, so that a dead worker is an error.
        - In a job of several processes, see DST954: it names the worker that the others wait for.
        - If steps, evaluations or checkpoints are that slow, raise `seconds`.

    Example:
        DataLoader(dataset, num_workers=4, timeout=0) # a dead worker: waits forever
        DataLoader(dataset, num_workers=4, timeout=120)

    References:
        PyTorch, torch.utils.data.DataLoader, `timeout`,
        https://docs.pytorch.org/docs/stable/data.html
    """

    code = "RUN901"
    needs = (Need(facts=(WorkerEnded, WorkerStalled), optional=True),)
    passes = True
    waits = True

    seconds: float = threshold(
        1800.0, unit="seconds", source="the default of SageMaker Debugger's StalledTrainingRule"
    )

    input_seconds: float = threshold(
        60.0,
        unit="seconds",
        source=("chosen by hand: reading one record of a common file takes less"),
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the clock with the time of the newest record."""
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        if any(window.seen(WorkerEnded)):
            return []
        waited_s = window.now_s - window.seen_s
        states = list(window.seen(WorkerStalled))
        state = states[-1] if states and not states[-1].has_resumed else None
        input_s = state.reading_s if state is not None else 0.0
        if waited_s >= self.seconds:
            severity, limit_s = Severity.ERROR, self.seconds
        elif min(waited_s, input_s) >= self.input_seconds:
            severity, limit_s = Severity.WARNING, self.input_seconds
        else:
            return []
        return [
            self.finding(
                window,
                severity=severity,
                step=window.last_step,
                message=(
                    f"no step or evaluation for {waited_s:,.0f} s since step {window.last_step} "
                    f"(limit {limit_s:g} s){_place(state)}"
                ),
                location=state.location if state is not None else None,
                evidence={"value": waited_s, "limit": limit_s},
            )
        ]


def _place(state: WorkerStalled | None) -> str:
    """Describe where training waits, and the current input of its pipeline."""
    if state is None:
        return ""
    place = f": training is in `{state.function}`" if state.function else ""
    reading = f": {state.reading}" if state.reading else ""
    return reading or place
