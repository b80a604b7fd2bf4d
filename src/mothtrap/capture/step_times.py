"""Times of steps, and mothtrap's own share of them."""

from __future__ import annotations

from collections.abc import Callable


class StepTimes:
    """Begins when it is made, and once more when that is said.

    Args:
        clock: gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_s = clock()
        self.begin()

    def begin(self) -> None:
        """From now on all counts; the first step took what it took all the same."""
        self._began_s = self._told_s = self._clock()
        self._closed_own_s = self._told_own_s = 0.0

    @property
    def wall_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began_s

    def closed(self, own_s: float) -> tuple[float, float]:
        """Return the seconds that a step took, and mothtrap's part of them.

        Steps that were not watched count as one.

        Args:
            own_s: what mothtrap took since the beginning.
        """
        now_s = self._clock()
        times = now_s - self._closed_s, own_s - self._closed_own_s
        self._closed_s, self._closed_own_s = now_s, own_s
        return times

    def passed(self, own_s: float) -> tuple[float, float]:
        """Return what passed since the last time this was asked, and mothtrap's part of it."""
        now_s = self._clock()
        times = now_s - self._told_s, own_s - self._told_own_s
        self._told_s, self._told_own_s = now_s, own_s
        return times
