"""Detect targets that are computed from a copy of a model under training, or from the model.

Such targets move with the model. Examples are a target network, an average of the weights, and
returns that a critic extrapolates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import AveragedModel

from mothtrap.adapters.torch.forward.equal_states import EqualStateObserver
from mothtrap.adapters.torch.forward.equal_views import EqualViewObserver
from mothtrap.adapters.torch.forward.teacher_modes import TeacherModes
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.tracing.jobs.identity import ByIdentity

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.capture.grouper import ClosedStep

BLOCK = 20
"""Number of steps that are inspected together. Chosen by hand."""
ENOUGH = 10
"""Number of steps in a block that must have such a forward pass. Chosen by hand: sampling is only
occasional."""

Design = tuple[type[nn.Module], tuple[tuple[int, ...], ...]]


class BootstrapObserver:
    """Counts the steps with such a forward pass, up to a limit.

    Args:
        job: the job to which the steps belong.

    Attributes:
        states: compares the data of predictions with those of the targets.
        views: compares the data of two predictions.
        teachers: the modes of models that teach another one.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._designs: ByIdentity[nn.Module, Design] = ByIdentity()
        self._trained: set[Design] = set()
        self._ran: nn.Module | None = None
        self._steps = self._with = 0
        self.states, self.views = EqualStateObserver(job), EqualViewObserver(job)
        self.teachers = TeacherModes(job)
        self._looks = True

    def root_called(
        self, module: nn.Module, given: Sequence[Any], owned: bool, trains: bool
    ) -> None:
        """Handle a model call; `owned`: an optimizer has the model, `trains`: with a graph."""
        if self.views.looks and owned and trains:
            self.views.called(module, given)
        if self.teachers.looks and (owned or not self._trained or not self.is_copy(module)):
            teaches = not owned or not any(p.requires_grad for p in module.parameters())
            self.teachers.called(module, given, teaches=teaches)
        if not self._looks:
            return
        if owned and trains:
            self._trained.add(self._design(module))
        elif module.training if owned else self._design(module) in self._trained:
            self._ran = module
        else:
            return
        if self.states.looks:
            self.states.called(module, given, trains=owned and trains)

    def cut(self, module: nn.Module) -> bool:
        """Handle an output that was used in a step although no backward pass went through it.

        Returns:
            Whether targets are known to be computed in this way.
        """
        if self._looks:
            self._ran = module
        return not self._looks

    def is_copy(self, module: nn.Module) -> bool:
        """Return whether a module without an optimizer has the structure of a trained one."""
        inner = module.module if isinstance(module, AveragedModel) else module
        return bool(self._trained) and self._design(inner) in self._trained

    def close(self, closed: ClosedStep) -> None:
        """Handle the end of a step."""
        step = closed.step
        if not self._looks:
            return
        ran, self._ran = self._ran, None
        self._steps += 1
        self._with += ran is not None
        if ran is not None and self._with >= ENOUGH:
            self._looks = False
            name, place = self._job.book.module_name(ran), self._job.book.location(ran)
            self._job.recorder.notes.observe(
                BootstrappedTargets(step=step, module=name, steps=self._with, location=place)
            )
        elif self._steps >= BLOCK:
            self._steps = self._with = 0

    def _design(self, module: nn.Module) -> Design:
        design = self._designs.get(module)
        if design is None:
            parameters = list(module.parameters())
            made = not any(map(is_lazy, parameters))
            design = (type(module), tuple(tuple(p.shape) for p in parameters) if made else ())
            if made:
                self._designs[module] = design
        return design
