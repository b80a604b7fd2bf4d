"""Values of losses with a margin, such as `TripletMarginLoss`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.losses import MarginLoss
from mothtrap.tracing.jobs.identity import ByIdentity
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

EVERY, EVERY_ON_DEVICE = 8, 32
"""One in this many calls is read; on an accelerator, reading waits for it."""
SAMPLES = 25
"""Values that are reported together."""
MAX_LOSSES = 4


@dataclass(slots=True)
class _Loss:
    """The calls of one loss module, and the values that are not yet reported."""

    calls: int = 0
    values: list[float] = field(default_factory=list)


class MarginObserver:
    """Reads the results of loss modules that have an attribute `margin`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._losses: ByIdentity[nn.Module, _Loss] = ByIdentity()

    def returned(self, module: nn.Module, value: torch.Tensor) -> None:
        """Handle the result of a loss module, one number, in training."""
        margin = vars(module).get("margin")
        if not isinstance(margin, float | int) or margin <= 0 or not is_plain(value):
            return
        loss = self._losses.get(module)
        if loss is None:
            if len(self._losses) >= MAX_LOSSES:
                return
            loss = self._losses[module] = _Loss()
        loss.calls += 1
        if loss.calls % (EVERY if value.is_cpu else EVERY_ON_DEVICE):
            return
        loss.values.append(float(value.detach()))
        if len(loss.values) < SAMPLES:
            return
        self._job.recorder.notes.observe(
            MarginLoss(
                step=self._job.grouper.step,
                loss=type(module).__name__,
                margin=float(margin),
                calls=loss.calls,
                values=tuple(loss.values),
                location=frames.user_location(),
            )
        )
        loss.values.clear()
