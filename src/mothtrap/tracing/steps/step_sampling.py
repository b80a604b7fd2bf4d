"""Skip the observation of steps that are too short to observe one by one.

Used by frameworks in which one function call makes a step. While steps are skipped, only the loss
is read, to see whether it is finite. Skipping ends after the planned number of steps, when steps
become longer, at a non-finite loss, and when the user logs a value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mothtrap.capture.step_sampling import LongSteps
from mothtrap.core.adapters import Job
from mothtrap.tracing.jobs.adapter_job import traced

ALIKE_STEPS = 32
"""Consecutive plain steps that must be observed before skipping starts."""


class Rests:
    """Skips observation of short steps; used on the training thread.

    Args:
        job: job of the steps.
        kin: frameworks whose adapters need not observe each step.
        may: returns whether no request waits for the next step.

    Attributes:
        made: number of steps since this was last set to 0.
    """

    def __init__(self, job: Job, kin: frozenset[str], may: Callable[[], bool]) -> None:
        self._job, self._kin, self._may = traced(job), kin, may
        config = job.config
        acts = config.on_nonfinite != "report" or config.max_gradient_norm
        asks = config.digests or config.snapshot_every or config.snapshot_at
        self._allowed = not (acts or asks)
        self._owner: Any = None
        self._alike = self.made = 0
        self._first = self._planned = 0
        self._began_s = self._stepped_s = 0.0
        self._long = LongSteps(0.0)
        if "torch" not in self._job.process.members:
            self._job.recorder.logs = self._logged

    @property
    def on(self) -> bool:
        """Return whether steps are being skipped."""
        return self._planned > 0

    def watched(self, owner: Any, *, plain: bool) -> None:
        """Record an observed step, and start skipping if the following steps allow it.

        Args:
            owner: owner of the function that makes the steps.
            plain: the step is like the previous ones, and no part of it was hidden.
        """
        self._alike = self._alike + 1 if plain and owner is self._owner else 0
        self._owner = owner
        if self._alike < ALIKE_STEPS or not self._allowed or not self._may():
            return
        step, recorder = self._job.grouper.step, self._job.recorder
        planned = recorder.next_watched(step - 1) - step
        if planned <= 0 or not self._kin >= self._job.process.members.keys():
            return
        self._first, self._planned = step, planned
        self._began_s = self._stepped_s = time.perf_counter()
        self._long = LongSteps(recorder.sampler.long_s())

    def passes(self, owner: Any) -> bool:
        """Return whether the next step of `owner` can be skipped; otherwise stop skipping."""
        if owner is self._owner and self._may():
            return True
        self.end()
        return False

    def passed(self) -> None:
        """Count a skipped step."""
        grouper = self._job.grouper
        grouper.step += 1
        self.made += 1
        before_s, self._stepped_s = self._stepped_s, time.perf_counter()
        are_longer = self._long.are_many(self._stepped_s - before_s)
        if are_longer or grouper.step - self._first >= self._planned:
            self.end()

    def end(self) -> None:
        """Observe every step again."""
        planned, self._planned = self._planned, 0
        step = self._job.grouper.step
        steps = step - self._first
        if planned:
            took_s = self._stepped_s - self._began_s
            self._job.recorder.sampler.ended(planned, steps, took_s)
            if steps:
                self._job.recorder.rested(self._first, step)

    def _logged(self, _: bool) -> int:
        if self.on:
            self._job.contain(self.end)
        return self._job.recorder.plan.step
