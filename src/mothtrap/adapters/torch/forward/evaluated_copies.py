"""Weights of the copies of a trained model that evaluations use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from mothtrap.core.facts.evaluations import EvaluatedCopy
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_LOOKS, EACH_STEP, SHARE = 32, 8, 8
"""Digests that are made, those that may come in successive steps, and the divisor of the steps so
far that gives the steps between two later ones. A target network runs in every step."""


class EvaluatedCopies:
    """Records a digest of the weights of a copy when it runs without a graph."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._due = self._looks = 0

    def called(self, module: nn.Module) -> None:
        """Handle a call to a copy; the first one after each step may be recorded."""
        step = self._job.grouper.steps_applied
        if step < self._due or self._looks >= MAX_LOOKS:
            return
        self._looks += 1
        self._due = step + (1 if self._looks < EACH_STEP else max(1, step // SHARE))
        digest = f"{arithmetic.fingerprint(list(module.parameters())):016x}"
        self._job.recorder.notes.observe(
            EvaluatedCopy(
                step=step,
                module=self._job.book.module_name(module),
                digest=digest,
                location=frames.user_location(),
            )
        )
