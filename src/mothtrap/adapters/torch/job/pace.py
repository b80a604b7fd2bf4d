"""Time that a worker needs for its own part of a step, in a job of several workers."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import torch.distributed

from mothtrap.core.facts.workers import WorkerPace

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

STEPS_REPORTED = 50
"""Steps between observations: medians over fewer steps fluctuate."""


class PaceObserver:
    """Measures the duration of steps, and their time outside of backward.

    Workers wait for each other in the backward pass, where gradients are averaged, so all of their
    steps are as long as the slowest worker's. The time outside of it is a worker's own.
    """

    def __init__(self, job: Job) -> None:
        self._notes = job.recorder.notes
        self._steps_s: list[float] = []
        self._own_s: list[float] = []
        self._backward_s = self._began_s = 0.0
        self._closed_s: float | None = None

    def backward_began(self) -> None:
        """Handle the start of the outermost backward pass."""
        self._began_s = time.perf_counter()

    def backward_ended(self) -> None:
        """Handle the end of the outermost backward pass."""
        self._backward_s += time.perf_counter() - self._began_s

    def close(self, step: int) -> None:
        """Handle the end of a step."""
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return
        now_s = time.perf_counter()
        if self._closed_s is not None:
            self._steps_s.append(now_s - self._closed_s)
            self._own_s.append(max(0.0, self._steps_s[-1] - self._backward_s))
        self._closed_s, self._backward_s = now_s, 0.0
        if len(self._steps_s) == STEPS_REPORTED:
            self._notes.observe(
                WorkerPace(
                    step=step,
                    steps=STEPS_REPORTED,
                    step_s=median(self._steps_s),
                    own_s=median(self._own_s),
                )
            )
            self._steps_s.clear()
            self._own_s.clear()
