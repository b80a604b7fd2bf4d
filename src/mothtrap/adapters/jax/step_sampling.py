"""Decide when the shadow of a function is compiled, and which steps it observes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import jax

from mothtrap.adapters.jax.shadow import Shadow

SOON_S: Final = 5.0
"""A function that compiles in less processor time than this gets its shadow at its first call."""
LATE_CALLS, LATE_S = 20, 60.0
"""Calls, or seconds, after which every other function gets its shadow."""

FREE_LOOKS, FREE_S = 10, 1.0
"""Number of inspections without a cost limit, and extra seconds that inspections may take."""
TOGETHER: Final = 2
"""Number of consecutive full steps to inspect: the next step shows the effect of a step."""


class LookBudget:
    """Time budget for inspections of full steps, as a share of the training time.

    An inspection costs another forward and backward pass, and a pass over all weights. For a large
    model, this is many times the cost of a full step with other frameworks.

    Args:
        share: share of the training time; 0 = inspect all full steps.
    """

    def __init__(self, share: float) -> None:
        self._share, self._began_s = share, 0.0
        self._spent_s, self._looks = 0.0, 0
        self._answer = -TOGETHER, True

    @functools.cached_property
    def _clock(self) -> Callable[[], float]:
        """Return the clock: on a CPU, the time of all threads, independent of other processes.

        It is created at the first inspection, because querying the device earlier would select it.
        """
        clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
        self._began_s = clock()
        return clock

    def allows(self, step: int) -> bool:
        """Return whether to inspect a full step."""
        first, answer = self._answer
        if first <= step < first + TOGETHER:
            return answer
        free_s = FREE_S + self._share * (self._clock() - self._began_s)
        answer = not self._share or self._looks < FREE_LOOKS or self._spent_s <= free_s
        self._answer = step, answer
        return answer

    @contextmanager
    def look(self, *, counts: bool = True) -> Iterator[None]:
        """Measure part of an inspection; False if it compiled."""
        began = self._clock()
        yield
        if counts:
            self._looks += 1
            self._spent_s += self._clock() - began


class Pace:
    """Schedule of one function's shadow.

    Attributes:
        shadow: None until it is created.
        compile_s: processor time of the first call, in which the function was compiled.
        is_off: whether it has nothing to report.
    """

    def __init__(self) -> None:
        self.shadow: Shadow | None = None
        self.compile_s, self.is_off = 0.0, False
        self._calls, self._began = 0, time.monotonic()

    def is_due(self) -> bool:
        """Return whether the shadow may run in this call."""
        self._calls += 1
        waited = self._calls >= LATE_CALLS or time.monotonic() - self._began > LATE_S
        return not self.is_off and (self.compile_s < SOON_S or waited)
