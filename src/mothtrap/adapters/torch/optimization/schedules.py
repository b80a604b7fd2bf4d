"""Learning rate schedules with a planned number of calls, compared with the job at its end."""

from __future__ import annotations

import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import distributed
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    PolynomialLR,
)

from mothtrap.adapters.torch.optimization.schedule_numbers import LEAST, numbers_read
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
OF_TORCH = ("last_epoch", "_step_count")
"""Numbers that torch keeps in each schedule."""
OF_LENGTH = ("epoch", "iter", "max", "step", "total", "length")
"""Parts of the names under which a schedule of the user keeps its planned number of calls."""
NEAR = 0.02
"""Largest difference of a number from the number of steps, as a share, to count as equal."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A schedule, the steps, passes and batches at its creation, and the line that created it.

    `state` is the dictionary of the schedule's attributes, and `first` the factor of its first
    rate.
    """

    kind: type[Any]
    state: dict[str, Any]
    steps: int
    passes: int
    location: str | None
    first: float
    batches: int
    processes: int


class ScheduleObserver:
    """Records the first schedules and the lines that created them.

    A schedule usually ends with the training function, so its calls are read when it is deleted.
    Until then, only its attributes are referenced, which do not keep other objects alive.

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
        known = type(schedule) in (*PLANS, LambdaLR) or is_users_own(type(schedule))
        if not known or id(schedule) in self._alive:
            return
        if len(self._alive) + len(self._ended) >= MAX_SCHEDULES:
            return
        self._alive[id(schedule)] = _Made(
            type(schedule),
            vars(schedule),
            self._job.grouper.steps_applied,
            self._passes(),
            frames.location(frames.user_frame(schedule)),
            _factor(vars(schedule)),
            self._job.grouper.batches_applied,
            _processes(),
        )
        weakref.finalize(schedule, self._gone, id(schedule)).atexit = False

    def ended(self) -> Iterable[ScheduleEnded]:
        """Return the progress of each schedule.

        A function of a `LambdaLR` may read many numbers. The planned number is a number near the
        number of steps, or a number that is named after epochs and equals the number of passes. If
        every call raised the rate by the same amount, it is the length of the warm-up. Otherwise it
        is a number near the number of batches of one process or of all processes. A schedule of the
        user plans for such a number if it keeps it under a fitting name (`OF_LENGTH`). After an
        exception, warm-ups that are longer than the job are left out.
        """
        for number in list(self._alive):
            self._end(self._alive.pop(number))
        broke_off = getattr(sys, "last_value", None) is not None
        return tuple(
            one
            for one in self._ended
            if not (broke_off and one.warms_up and one.planned > one.steps)
        )

    def _gone(self, number: int) -> None:
        made = self._alive.pop(number, None)  # release its state in any case
        if made is not None:
            self._job.contain_part("schedules", self._end, made)

    def _end(self, made: _Made) -> None:
        applied = self._job.grouper.steps_applied
        steps, passes = applied - made.steps, self._passes() - made.passes
        batches = self._job.grouper.batches_applied - made.batches
        state = made.state
        plans = tuple(_plans(made, steps, passes)) or tuple(_plans_of_batches(made, batches))
        for argument, planned, warms_up in plans:
            self._ended.append(
                ScheduleEnded(
                    step=max(0, applied - 1),
                    schedule=made.kind.__name__,
                    argument=argument,
                    planned=planned,
                    calls=int(state.get("last_epoch", 0)),
                    steps=steps,
                    passes=passes,
                    warms_up=warms_up,
                    batches=batches,
                    processes=made.processes,
                    location=made.location,
                )
            )


def _plans(made: _Made, steps: int, passes: int) -> Iterator[tuple[str, int, bool]]:
    """Yield name and number of the calls that a schedule plans, and whether it warms up."""
    argument, state = PLANS.get(made.kind), made.state
    if argument is not None:
        rises = made.kind is LinearLR and state["start_factor"] < state["end_factor"]
        yield argument, int(state[argument]), rises
        return
    if made.kind is not LambdaLR:
        yield from _plans_of_users(state, steps, passes)
        return
    for function in state["lr_lambdas"]:
        numbers = numbers_read(function)
        longer = _longer_warm_up(made, numbers, steps)
        if longer is not None:
            yield *longer, True
            return
        for name, number in numbers.items():
            of_passes = number == passes and "epoch" in name.lower()
            if of_passes or abs(number - steps) <= NEAR * steps:
                yield name, number, False
                return
        found = _warm_up(made, numbers, steps)
        if found is not None:
            yield *found, True
            return


def _plans_of_batches(made: _Made, batches: int) -> Iterator[tuple[str, int, bool]]:
    """Yield name and number of the calls of a schedule that plans one for each batch."""
    if made.kind is LambdaLR:
        found = {k: v for f in made.state["lr_lambdas"] for k, v in numbers_read(f).items()}
    else:
        found = dict(_lengths(made.state))
    for name, number in found.items():
        for counted in (batches, batches * made.processes):
            if abs(number - counted) <= NEAR * counted:
                yield name, number, False
                return


def _processes() -> int:
    """Return the number of processes that train together."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def is_users_own(kind: type[Any]) -> bool:
    """Return whether a class is a schedule that the user wrote."""
    own = issubclass(kind, LRScheduler) and inspect.isfunction(vars(kind).get("get_lr"))
    return own and frames.is_users_file(vars(kind)["get_lr"].__code__.co_filename)


def _plans_of_users(
    state: Mapping[str, Any], steps: int, passes: int
) -> Iterator[tuple[str, int, bool]]:
    """Yield the planned number of calls of a schedule that the user wrote."""
    for name, number in _lengths(state):
        if number == passes or abs(number - steps) <= NEAR * steps:
            yield name, number, False
            return


def _lengths(state: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the numbers that a schedule of the user keeps under the name of a length."""
    for name, number in state.items():
        fits = any(part in name.lower() for part in OF_LENGTH) and "warm" not in name.lower()
        if fits and type(number) is int and name not in OF_TORCH and number >= LEAST:
            yield name, number


def _warm_up(made: _Made, numbers: Mapping[str, int], steps: int) -> tuple[str, int] | None:
    """Return the length of a linear warm-up that has not ended, and its name.

    Args:
        made: a schedule.
        numbers: numbers that its function reads.
        steps: steps of the job; a longer warm-up cannot have ended.
    """
    calls, factor = int(made.state["last_epoch"]), _factor(made.state)
    left = {name: number for name, number in numbers.items() if calls < number <= steps}
    for name, number in left.items():
        if _is_at(factor, calls, number):
            return name, number
    grown = factor / made.first if made.first > 0 else 0.0
    is_line = any(math.isclose(grown, times, rel_tol=NEAR) for times in (calls, calls + 1))
    return next(iter(left.items()), None) if is_line and calls > 2 else None


def _longer_warm_up(made: _Made, numbers: Mapping[str, int], steps: int) -> tuple[str, int] | None:
    """Return name and length of a linear warm-up that is longer than the job.

    The name is empty if its function computes the length.
    """
    calls, factor = int(made.state["last_epoch"]), _factor(made.state)
    if calls <= LEAST or not 0 < factor < 1:
        return None
    for name, number in numbers.items():
        if number > steps and _is_at(factor, calls, number):
            return name, number
    if made.first <= 0 or not math.isclose(factor / made.first, calls + 1, rel_tol=NEAR):
        return None
    length = round(1 / made.first)
    return ("", length) if length > steps else None


def _is_at(factor: float, calls: int, length: int) -> bool:
    """Return whether a linear warm-up of this length has this factor after these calls."""
    return any(math.isclose(factor, done / length, rel_tol=NEAR) for done in (calls, calls + 1))


def _factor(state: Mapping[str, Any]) -> float:
    """Return the latest rate of a schedule as a factor of its full rate; 0 if it is unknown."""
    last, full = state.get("_last_lr"), state.get("base_lrs")
    return float(last[0] / full[0]) if last and full and full[0] else 0.0
