"""Learning rate schedules with a planned number of calls, compared with the job at its end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    PolynomialLR,
)

from mothtrap.adapters.torch.optimization.schedule_numbers import numbers_read
from mothtrap.core.facts.optimizers import ScheduleEnded
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

PLANS: dict[type[Any], str] = {
    CosineAnnealingLR: "T_max",
    LinearLR: "total_iters",
    OneCycleLR: "total_steps",
    PolynomialLR: "total_iters",
}
"""Schedules, and the argument that contains the planned number of calls."""
MAX_SCHEDULES = 8
NEAR = 0.02
"""Largest difference of a number from the number of steps, as a share, to count as equal."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A schedule, the steps and passes at its creation, and the line that created it.

    `state` is the dictionary of the schedule's attributes.
    """

    kind: type[Any]
    state: dict[str, Any]
    steps: int
    passes: int
    location: str | None


class ScheduleObserver:
    """Records the first schedules and the lines that created them.

    A schedule usually ends with the training function, so its calls are read when it is deleted.
    Until then, only its attributes are referenced, which keep nothing else alive.

    Args:
        job: the job that calls the schedules.
        passes: returns the number of passes over the training data; 0 if unknown.
    """

    def __init__(self, job: Job, passes: Callable[[], int]) -> None:
        self._job, self._passes = job, passes
        self._alive: dict[int, _Made] = {}
        self._ended: list[ScheduleEnded] = []

    def made(self, schedule: Any) -> None:
        """Handle a new schedule."""
        if type(schedule) not in (*PLANS, LambdaLR) or id(schedule) in self._alive:
            return
        if len(self._alive) + len(self._ended) >= MAX_SCHEDULES:
            return
        self._alive[id(schedule)] = _Made(
            type(schedule),
            vars(schedule),
            self._job.grouper.steps_applied,
            self._passes(),
            frames.user_location(),
        )
        weakref.finalize(schedule, self._gone, id(schedule)).atexit = False

    def ended(self) -> Iterable[ScheduleEnded]:
        """Return the progress of each schedule.

        A function of a `LambdaLR` may read many numbers. The planned number is the one near the
        number of steps, or the one that is named after epochs and equals the number of passes.
        """
        for number in list(self._alive):
            self._end(self._alive.pop(number))
        return tuple(self._ended)

    def _gone(self, number: int) -> None:
        made = self._alive.pop(number, None)  # release its state in any case
        if made is not None:
            self._job.contain_part("schedules", self._end, made)

    def _end(self, made: _Made) -> None:
        applied = self._job.grouper.steps_applied
        steps, passes = applied - made.steps, self._passes() - made.passes
        state = made.state
        for argument, planned in _plans(made, steps, passes):
            self._ended.append(
                ScheduleEnded(
                    step=max(0, applied - 1),
                    schedule=made.kind.__name__,
                    argument=argument,
                    planned=planned,
                    calls=int(state["last_epoch"]),
                    steps=steps,
                    passes=passes,
                    warms_up=made.kind is LinearLR and state["start_factor"] < state["end_factor"],
                    location=made.location,
                )
            )


def _plans(made: _Made, steps: int, passes: int) -> Iterator[tuple[str, int]]:
    """Yield the number of calls that a schedule plans, if known, and the name of that number."""
    argument = PLANS.get(made.kind)
    if argument is not None:
        yield argument, int(made.state[argument])
        return
    for function in made.state["lr_lambdas"]:
        for name, number in numbers_read(function).items():
            of_passes = number == passes and "epoch" in name.lower()
            if of_passes or abs(number - steps) <= NEAR * steps:
                yield name, number
                return
