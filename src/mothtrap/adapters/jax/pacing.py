"""The time at which the shadow of a function is made."""

from __future__ import annotations

import time
from typing import Final

from mothtrap.adapters.jax.shadow import Shadow

SOON_S: Final = 5.0
"""A function that compiles in less processor time gets its shadow at its first call."""
LATE_CALLS, LATE_S = 20, 60.0
"""Calls, or seconds, after which every other one gets it."""


class Pace:
    """The shadow of one function, once there is one.

    Attributes:
        shadow: None until it is made.
        compile_s: processor time of the first call, in which the function was compiled.
        is_off: it has nothing to show.
    """

    def __init__(self) -> None:
        self.shadow: Shadow | None = None
        self.compile_s, self.is_off = 0.0, False
        self._calls, self._began = 0, time.monotonic()

    def is_due(self) -> bool:
        """Return whether it may run in this call."""
        self._calls += 1
        waited = self._calls >= LATE_CALLS or time.monotonic() - self._began > LATE_S
        return not self.is_off and (self.compile_s < SOON_S or waited)
