"""Detect teachers that run in training mode.

A teacher is a model that no optimizer holds, or that is frozen, and that receives the data of a
trained model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.forward.modes import MAX_PATHS, active_in_training
from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.evaluations import TeacherMode
from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

ENOUGH = 8
"""Number of steps in which a teacher ran in training mode. Chosen by hand."""
MAX_CALLS = 8
"""Number of latest calls that are compared. Data of a step are not kept beyond it."""

Call = tuple[OwnRef[nn.Module], OwnRef[torch.Tensor], bool]


class TeacherModes:
    """Counts the steps in which a teacher runs in training mode, until it is reported.

    Attributes:
        looks: no teacher was reported yet, and none ran in evaluation mode.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.looks = True
        self._counted, self._steps = -1, 0
        self._calls: deque[Call] = deque(maxlen=MAX_CALLS)

    def called(self, module: nn.Module, given: Sequence[Any], *, teaches: bool) -> None:
        """Handle a model call; `teaches`: the model is not trained, and it is no copy."""
        tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
        if tensor is None or not is_plain(tensor):
            return
        self._calls.append((OwnRef(module), OwnRef(tensor), teaches))
        for of_model, of_data, other_teaches in self._calls:
            other, data = of_model(), of_data()
            if other_teaches is teaches or other is None or data is None:
                continue
            if data.data_ptr() == tensor.data_ptr() and data.numel() == tensor.numel():
                self._taught(module if teaches else other, self._job.grouper.step)
                return

    def _taught(self, teacher: nn.Module, step: int) -> None:
        """Handle a teacher and its student, which received the same data in this step."""
        active = active_in_training(teacher, self._job.book)
        if not any(active):
            self.looks = False
            return
        self._steps += step != self._counted
        self._counted = step
        if self._steps < ENOUGH:
            return
        self.looks = False
        dropouts, norms, updating = active
        self._job.recorder.notes.observe(
            TeacherMode(
                step=step,
                module=self._job.book.module_name(teacher),
                module_type=class_name(teacher),
                steps=self._steps,
                dropouts=dropouts[:MAX_PATHS],
                norms=(*norms, *updating)[:MAX_PATHS],
                location=self._job.book.location(teacher) or frames.user_location(),
            )
        )
