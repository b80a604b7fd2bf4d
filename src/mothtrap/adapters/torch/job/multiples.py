"""Detect multiples of a step count when not every step is inspected."""

from __future__ import annotations


class Multiples:
    """Determines at some steps whether a multiple of a number of steps has passed.

    If only inspected steps were tested, work that is due every 100 steps would wait for thousands
    of steps once most steps are light.

    Args:
        every: the step count.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._passed: int | None = None

    def passed(self, step: int) -> bool:
        """Return whether a multiple has passed since the last call; False on the first call.

        Args:
            step: step that is over, counted from 0.
        """
        before, self._passed = self._passed, (step + 1) // self._every
        return before is not None and before != self._passed
