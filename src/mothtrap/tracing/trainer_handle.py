"""The part of a trainer's handle that all of them share: phases, settings, what is logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from mothtrap.capture.grouper import ClosedStep
from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings
from mothtrap.core.fact import Fact
from mothtrap.core.facts.trainers import TrainerSettings, TrainingPhase
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.adapter_job import traced
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainers_at_work import TrainerAtWork

REPORTS: Final = Reports(facts=frozenset({TrainerSettings, TrainingPhase}))
"""Beside names of numbers, which are the user's: all else is seen of the framework below."""

Phase = Literal["train", "sanity_check", "validation", "test", "predict", ""]
NO_EVALUATION = ("sanity_check", "predict")
"""Phases whose losses say nothing of how well the model does."""


class TrainerHandle:
    """A trainer at work; derive from it and replace functions in `install`.

    Args:
        job: takes what is seen.
        targets: models that are watched; none = all of the process.

    Attributes:
        facts: those that it reports.
        job: the same, with the process in which it takes part.
        replacements: puts functions in the place of others.
        work: the trainers whose counters a snapshot has; set by `install`.
    """

    honors = WITHOUT_SNAPSHOTS
    facts: ClassVar[tuple[type[Fact], ...]] = (TrainerSettings, TrainingPhase)

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self.job, self._targets = traced(job), tuple(targets)
        self._phase: Phase = ""
        self._epoch: int | None = None
        self._asked: Mode | None = None
        self._told: TrainerSettings | None = None
        self.job.observer = self
        self.replacements = Replacements(job.contain)
        self.work: Sequence[TrainerAtWork] = ()
        try:
            self.install()
        except BaseException:
            self._restore()  # all or nothing
            raise

    def install(self) -> None:
        """Replace functions of the trainer."""
        raise NotImplementedError

    def watches(self, model: object) -> bool:
        """Return whether a model is one of those that are watched."""
        return not self._targets or any(target is model for target in self._targets)

    def settings(self, settings: TrainerSettings) -> None:
        """Report the settings of a training, where they are other ones than the last."""
        if settings != self._told:
            self._told = settings
            self.job.fact(settings)

    def enter(self, phase: Phase, epoch: int | None = None) -> None:
        """Take what the trainer does from now on; empty: it is done."""
        if (phase, epoch) == (self._phase, self._epoch):
            return
        self._phase, self._epoch = phase, epoch
        self._ask(Mode.PREDICT if phase in NO_EVALUATION else None)
        # A step that is applied is over, though the framework below has not handed it on yet.
        step = self.job.grouper.steps_applied
        self.job.fact(TrainingPhase(step=step, phase=phase, epoch=epoch))

    @property
    def phase(self) -> Phase:
        """Return what the trainer does."""
        return self._phase

    @property
    def epoch(self) -> int | None:
        """Return the epoch in which it does that."""
        return self._epoch

    def _ask(self, mode: Mode | None) -> None:
        process = self.job.process
        if process.asked_mode is self._asked:  # else the user has set another one
            process.asked_mode = mode
            self._asked = mode

    def leave(self) -> None:
        """Take the end of what the trainer does, also by an exception."""
        self.job.process.loss_place = None
        self.enter("")

    def closing(self, _: ClosedStep) -> None:
        """Say that settings and phases were looked for."""
        self.job.stood_ready(self.facts)

    def closed(self, _: ClosedStep) -> None:
        """Do nothing: the next step begins."""

    def interrupted(self) -> None:
        """Do nothing: no step waits here."""

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return None: the framework takes snapshots."""
        return None

    def step(self, given: Given) -> None:
        """Attach numbers of the user's to the step in progress; never raises."""
        for name, value in given.numbers.items():
            self.job.number(name, value)
        if given.loss is not None:
            self.job.number("loss", given.loss)

    def surroundings(self) -> Surroundings | None:
        """Return None: the settings are facts of the run."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: the trainer cannot be ended."""
        return False

    def detach(self) -> None:
        """Restore everything that was replaced."""
        self._ask(None)
        self.job.process.loss_place = None
        self._restore()

    def _restore(self) -> None:
        self.replacements.undo()
        for each in self.work:
            each.leave()

    def abandon(self) -> None:
        """See nothing from here on, in a forked child."""
        self.job.live = False


def limit(value: Any) -> float | None:
    """Return a limit of a trainer's as a number; None where it says that there is none."""
    return float(value) if isinstance(value, int | float) and value > 0 else None


def count(value: Any) -> int | None:
    """Return a number of epochs or steps; None where the trainer says that there is no limit."""
    return int(value) if isinstance(value, int | float) and value > 0 else None
