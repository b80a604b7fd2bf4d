"""Intervals at which segments are sealed in a run that is sent to an object store.

An object is written only once, so captured data is sent in sealed segments. They are sealed by time
as well as by size.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.01
"""Share of a run's age that a segment may cover. Chosen by hand: a run of a day then has a few
thousand segments of a kind, and opens within seconds.
"""
LIMIT = 10.0
"""Maximum interval, as a multiple of the first interval; chosen by hand."""


class RollClock:
    """Determines when open segments are due; without an interval, never.

    Args:
        every_s: seconds after its first row at which a segment is sealed; grows with the
            age of the run, see `SHARE`. None = by size only.
        clock: returns monotonic seconds.
    """

    def __init__(self, every_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._began_s = clock()
        self._first_s: float | None = None

    def wrote(self) -> None:
        """Record that data was written."""
        if self._first_s is None:
            self._first_s = self._clock()

    def sealed(self) -> None:
        """Record that everything is sealed."""
        self._first_s = None

    @property
    def due(self) -> bool:
        """Return whether written data has waited long enough."""
        if self._every_s is None or self._first_s is None:
            return False
        now_s = self._clock()
        grown_s = min(SHARE * (now_s - self._began_s), LIMIT * self._every_s)
        return now_s - self._first_s >= max(self._every_s, grown_s)
