"""Learning rate schedules that plan for a number of calls, compared with the job at its end."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    PolynomialLR,
)

from mothtrap.adapters.torch.optimization.schedule_numbers import numbers_read
from mothtrap.core.facts.optimizers import ScheduleEnded
from mothtrap.tracing import frames

PLANS: dict[type[Any], str] = {
    CosineAnnealingLR: "T_max",
    LinearLR: "total_iters",
    OneCycleLR: "total_steps",
    PolynomialLR: "total_iters",
}
"""Schedules and the argument that holds the number of calls that they plan for."""
MAX_SCHEDULES = 8
NEAR = 0.02
"""Share of the steps by which a number that a function reads may differ from their number."""


class ScheduleObserver:
    """Remembers the first schedules and the lines that made them."""

    def __init__(self) -> None:
        self._made: list[tuple[weakref.ref[Any], str | None]] = []

    def made(self, schedule: Any) -> None:
        """A schedule was constructed."""
        known = type(schedule) in (*PLANS, LambdaLR) and len(self._made) < MAX_SCHEDULES
        if known and all(reference() is not schedule for reference, _ in self._made):
            self._made.append((weakref.ref(schedule), frames.user_location()))

    def ended(self, steps: int, passes: int) -> Iterable[ScheduleEnded]:
        """Return how far each schedule that is alive came.

        A function of a `LambdaLR` may read many numbers. It plans for the one that is near the
        number of steps, or is named after epochs and equals the number of passes.

        Args:
            steps: optimizer steps of the job.
            passes: passes over the training data; 0 where they are not known.
        """
        for reference, location in self._made:
            schedule = reference()
            if schedule is None:
                continue
            for argument, planned in _plans(schedule, steps, passes):
                yield ScheduleEnded(
                    step=max(0, steps - 1),
                    schedule=type(schedule).__name__,
                    argument=argument,
                    planned=planned,
                    calls=int(schedule.last_epoch),
                    steps=steps,
                    passes=passes,
                    warms_up=_warms_up(schedule),
                    location=location,
                )


def _plans(schedule: Any, steps: int, passes: int) -> Iterator[tuple[str, int]]:
    """Yield the number of calls that a schedule plans for, if it is known, and its name."""
    argument = PLANS.get(type(schedule))
    if argument is not None:
        yield argument, int(getattr(schedule, argument))
        return
    for function in schedule.lr_lambdas:
        for name, number in numbers_read(function).items():
            of_passes = number == passes and "epoch" in name.lower()
            if of_passes or abs(number - steps) <= NEAR * steps:
                yield name, number
                return


def _warms_up(schedule: Any) -> bool:
    return type(schedule) is LinearLR and schedule.start_factor < schedule.end_factor
