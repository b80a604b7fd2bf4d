"""Base of the handles of trainers: phases, settings, logged numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from mothtrap.core.adapters import Job, MadeStep
from mothtrap.core.fact import Fact
from mothtrap.core.facts.trainers import TrainerSettings, TrainingPhase
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.observing_handle import ObservingHandle

REPORTS: Final = Reports(facts=frozenset({TrainerSettings, TrainingPhase}))
"""Reports of a trainer, in addition to the user's numbers; the underlying framework reports
everything else.
"""

Phase = Literal["train", "sanity_check", "validation", "test", "predict", ""]
NO_EVALUATION = ("sanity_check", "predict")
"""Phases whose losses do not show the quality of the model."""


class TrainerHandle(ObservingHandle):
    """Base handle for a trainer; derive from it and replace functions in `install`.

    Args:
        job: receives the observations.
        targets: watched models; empty = the whole process.

    Attributes:
        facts: facts that the handle reports.
    """

    facts: ClassVar[tuple[type[Fact], ...]] = (TrainerSettings, TrainingPhase)

    def __init__(self, job: Job, targets: Sequence[object] = ()) -> None:
        self._phase: Phase = ""
        self._epoch: int | None = None
        self._reported: TrainerSettings | None = None
        super().__init__(job, targets)

    def settings(self, settings: TrainerSettings) -> None:
        """Report the settings of a training run if they differ from the previous ones."""
        if settings != self._reported:
            self._reported = settings
            self.job.fact(settings)

    def enter(self, phase: Phase, epoch: int | None = None) -> None:
        """Record a new phase of the trainer; empty if it is done."""
        if (phase, epoch) == (self._phase, self._epoch):
            return
        self._phase, self._epoch = phase, epoch
        self.job.ask_mode(Mode.PREDICT if phase in NO_EVALUATION else None)
        # An applied step is over, although the underlying framework has not closed it yet.
        step = self.job.steps_applied
        self.job.fact(TrainingPhase(step=step, phase=phase, epoch=epoch))

    @property
    def phase(self) -> Phase:
        """Return the phase of the trainer."""
        return self._phase

    @property
    def epoch(self) -> int | None:
        """Return the epoch of the trainer's phase."""
        return self._epoch

    def leave(self) -> None:
        """Record the end of a phase, even after an exception."""
        self.job.loss_computed_at(None)
        self.enter("")

    def closing(self, _: MadeStep) -> None:
        """Record that settings and phases were observed."""
        self.job.stood_ready(self.facts)

    def detach(self) -> None:
        """Restore everything that was replaced."""
        self.job.ask_mode(None)
        self.job.loss_computed_at(None)
        super().detach()


def limit(value: Any) -> float | None:
    """Return a trainer's limit as a number; None if there is no limit."""
    return float(value) if isinstance(value, int | float) and value > 0 else None


def count(value: Any) -> int | None:
    """Return a number of epochs or steps; None if there is no limit."""
    return int(value) if isinstance(value, int | float) and 0 < value < float("inf") else None
