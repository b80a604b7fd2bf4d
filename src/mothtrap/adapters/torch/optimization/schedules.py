"""Learning rate schedules that plan for a number of calls, compared with the job at its end."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, PolynomialLR

from mothtrap.core.facts.optimizers import ScheduleEnded
from mothtrap.tracing import frames

PLANS: dict[type[Any], str] = {
    CosineAnnealingLR: "T_max",
    OneCycleLR: "total_steps",
    PolynomialLR: "total_iters",
}
"""Schedules and the argument that holds the number of calls that they plan for."""
MAX_SCHEDULES = 8


class ScheduleObserver:
    """Remembers the first schedules and the lines that made them."""

    def __init__(self) -> None:
        self._made: list[tuple[weakref.ref[Any], str | None]] = []

    def made(self, schedule: Any) -> None:
        """A schedule was constructed."""
        known = type(schedule) in PLANS and len(self._made) < MAX_SCHEDULES
        if known and all(reference() is not schedule for reference, _ in self._made):
            self._made.append((weakref.ref(schedule), frames.user_location()))

    def ended(self, steps: int, passes: int) -> Iterable[ScheduleEnded]:
        """Return how far each schedule that is alive came.

        Args:
            steps: optimizer steps of the job.
            passes: passes over the training data; 0 where they are not known.
        """
        for reference, location in self._made:
            schedule = reference()
            if schedule is None:
                continue
            argument = PLANS[type(schedule)]
            yield ScheduleEnded(
                step=max(0, steps - 1),
                schedule=type(schedule).__name__,
                argument=argument,
                planned=int(getattr(schedule, argument)),
                calls=int(schedule.last_epoch),
                steps=steps,
                passes=passes,
                location=location,
            )
