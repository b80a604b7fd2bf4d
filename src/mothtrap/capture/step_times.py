"""Times of steps, and mothtrap's own share of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepTimes:
    """Measures the time of steps and of mothtrap; can be restarted.

    Attributes:
        clock: returns seconds.
        own_s: seconds that mothtrap has spent on the training thread since the beginning; adapters
            add the time of their hooks.
        waited_s: seconds that the hook in progress has waited for the training, which are not its
            own time.

    Args:
        clock: initial value of the attribute.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.waited_s = clock, 0.0
        self._closed_s = clock()
        self.begin()

    def begin(self) -> None:
        """Start counting from now; the first step keeps its time."""
        self._began_s = self._told_s = self.clock()
        self.own_s = self._closed_own_s = self._told_own_s = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait, in a hook, for the training to compute; this is not mothtrap's time."""
        began_s = self.clock()
        try:
            yield
        finally:
            self.waited_s += self.clock() - began_s

    @property
    def wall_s(self) -> float:
        """Return the seconds since the start, including evaluations, as in `own_s`."""
        return self.clock() - self._began_s

    def closed(self) -> tuple[float, float, float, float]:
        """Return the duration of a step, and mothtrap's share of it, in seconds.

        It also returns the same since the last call of this or `passed`.
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
        """Return the duration of unobserved steps, and mothtrap's share, in seconds."""
        now_s, own_s = self.clock(), self.own_s
        times = now_s - self._closed_s, own_s - self._closed_own_s
        self._closed_s, self._closed_own_s = now_s, own_s
        return times

    def passed(self) -> tuple[float, float]:
        """Return the time since the last call, and mothtrap's share, in seconds."""
        now_s, own_s = self.clock(), self.own_s
        times = now_s - self._told_s, own_s - self._told_own_s
        self._told_s, self._told_own_s = now_s, own_s
        return times
