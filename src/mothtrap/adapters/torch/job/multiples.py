"""Multiples of a number of steps, where not each step is looked at."""

from __future__ import annotations


class Multiples:
    """Asked at the end of some steps whether a multiple of a number of steps has passed.

    To count the steps that are looked at in its place would let what is due every 100 steps
    wait for thousands, once most steps are light.

    Args:
        every: the number.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._passed: int | None = None

    def passed(self, step: int) -> bool:
        """Return whether one has passed since this was asked before; not the first time.

        Args:
            step: that is over, counted from 0.
        """
        before, self._passed = self._passed, (step + 1) // self._every
        return before is not None and before != self._passed
