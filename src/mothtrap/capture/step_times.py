"""Times of steps, and mothtrap's own share of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepTimes:
    """Begins when it is made, and once more when that is said.

    Attributes:
        clock: returns seconds.
        own_s: seconds that mothtrap has spent on the training thread since the beginning;
            adapters add what their hooks take.
        waited_s: seconds that the hook in progress has waited for the training; none of its own.

    Args:
        clock: the first value of the attribute.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.waited_s = clock, 0.0
        self._closed_s = clock()
        self.begin()

    def begin(self) -> None:
        """From now on all counts; the first step took what it took all the same."""
        self._began_s = self._told_s = self.clock()
        self.own_s = self._closed_own_s = self._told_own_s = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait, in a hook, for what the training computes: that is no time of mothtrap's."""
        began_s = self.clock()
        try:
            yield
        finally:
            self.waited_s += self.clock() - began_s

    @property
    def wall_s(self) -> float:
        """Seconds since the beginning, evaluations included, as in `own_s`."""
        return self.clock() - self._began_s

    def closed(self) -> tuple[float, float, float, float]:
        """Return the seconds that a step took, and mothtrap's part of them.

        Then the same since this or `passed` was called last.
        """
        now_s, own_s = self.clock(), self.own_s
        times = (
            *(now_s - self._closed_s, own_s - self._closed_own_s),
            *(now_s - self._told_s, own_s - self._told_own_s),
        )
        self._closed_s = self._told_s = now_s
        self._closed_own_s = self._told_own_s = own_s
        return times

    def rested(self) -> tuple[float, float]:
        """Return the seconds that steps took which were not watched, and mothtrap's part."""
        now_s, own_s = self.clock(), self.own_s
        times = now_s - self._closed_s, own_s - self._closed_own_s
        self._closed_s, self._closed_own_s = now_s, own_s
        return times

    def passed(self) -> tuple[float, float]:
        """Return what passed since the last time this was asked, and mothtrap's part of it."""
        now_s, own_s = self.clock(), self.own_s
        times = now_s - self._told_s, own_s - self._told_own_s
        self._told_s, self._told_own_s = now_s, own_s
        return times
