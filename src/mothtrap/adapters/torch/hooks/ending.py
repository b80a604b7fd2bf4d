"""Reports at the end of a job: the exception that ended it, or missing steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mothtrap.adapters.torch.explaining.failures import explain
from mothtrap.adapters.torch.losses.failed_loss import failed_loss, told
from mothtrap.adapters.torch.optimization.schedules import ScheduleObserver
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.core.steps import Mode, StepKey

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.optimization.optimizers import Known
    from mothtrap.adapters.torch.snapshots.taker import TorchSnapshotTaker

UNSTEPPED = (
    "backward ran {} times, but no optimizer's step() was called, and no manual weight update "
    "was seen; to count steps, use dbg = mothtrap.watch(model), and call dbg.step(loss=loss) "
    "after each update"
)


class Ending:
    """Reports, at the end of a job, facts that no step can report.

    Attributes:
        schedules: learning rate schedules that the job created.
    """

    def __init__(self, job: Job, forwards: ForwardObserver, snapshots: TorchSnapshotTaker) -> None:
        self._job, self._forwards, self._snapshots = job, forwards, snapshots
        loaders = forwards.inputs.loaders
        self.schedules = ScheduleObserver(job, lambda: loaders.passes_trained)

    def report(self) -> None:
        """Store and explain the exception that ended the job, if any."""
        error = self._job.recorder.containment.ended_by
        self._job.contain_part("snapshots", self._snapshots.ended, error)
        if error is not None:
            self._job.contain_part("explanation of the exception", self._explain, error)
            self._job.contain_part("failed losses", self._report_failed_loss, error)
        else:
            self._job.contain_part("schedules", self._report_schedules)

    def report_unstepped(self, backwards: int, unapplied: Known | None) -> None:
        """Report why there was no step, unless another fact explains it.

        Args:
            backwards: calls to `backward`.
            unapplied: optimizer whose gradients were cleared, but never applied.
        """
        job = self._job
        notes = job.recorder.notes
        if not backwards or job.grouper.step or notes.unstepped:
            return
        notes.never_stepped(UNSTEPPED.format(backwards))
        if unapplied is not None and not unapplied.steps:
            notes.unstepped.append(
                UpdateDropped(
                    step=0,
                    function=unapplied.name,
                    calls=backwards,
                    why="not stepped",
                    location=unapplied.order.cleared_at,
                )
            )

    def _report_schedules(self) -> None:
        job, ended = self._job, tuple(self.schedules.ended())
        if ended:
            key = StepKey(step=job.grouper.step, mode=Mode.PREDICT)
            job.recorder.evaluation(key, (), ended)

    def _report_failed_loss(self, error: BaseException) -> None:
        job = self._job
        found = failed_loss(error, job.grouper.step)
        if found is not None:
            key = StepKey(step=job.grouper.step, mode=Mode.PREDICT)
            job.recorder.evaluation(key, (), (found,))
            if not job.recorder.notes.unstepped:
                job.recorder.notes.never_stepped(told(found))

    def _explain(self, error: BaseException) -> None:
        job = self._job
        found = explain(error, job.grouper.step, job.book, self._forwards)
        if found is not None:
            key = StepKey(step=job.grouper.step, mode=Mode.PREDICT)
            job.recorder.evaluation(key, (), (found,))
            job.recorder.notes.unstepped.append(found)
