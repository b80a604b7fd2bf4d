"""Counts and reports of captures that the governor has skipped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mothtrap.capture.selection import Stream
from mothtrap.core.facts.captures import Thinned
from mothtrap.core.steps import Mode

REPORT_STEPS = 100
"""Steps between two reports about a stream with skipped captures. Chosen by hand: a killed job
loses the counts of at most this many steps, and a run gets one small fact per interval.
"""


@dataclass(slots=True)
class _Count:
    """Counts of one stream in one mode, since its last report."""

    stream: Stream
    due: int = 0
    skipped: int = 0
    first: int = 0
    last: int = 0
    told_at: int | None = None


class Thinning:
    """Counts skipped captures; reports a stream at its first skip, and then at intervals."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Mode], _Count] = {}

    def count(self, due: Iterable[tuple[Stream, bool]], mode: Mode, step: int) -> None:
        """Count the captures that were due in a train step, each with whether it was made."""
        for stream, admitted in due:
            count = self._counts.get((stream.name, mode))
            if count is None:
                count = self._counts[stream.name, mode] = _Count(stream)
            count.due += 1
            if not admitted:
                count.first = step if count.skipped == 0 else count.first
                count.last = step
                count.skipped += 1

    def take(self, step: int, *, last: bool = False) -> list[Thinned]:
        """Return the facts to report in the step that closes.

        Args:
            step: number of the step.
            last: no further step follows.
        """
        told = []
        for (name, mode), count in self._counts.items():
            if count.told_at is None:
                tells = count.skipped > 0
            else:
                tells = count.skipped > 0 and step - count.told_at >= REPORT_STEPS
                tells = tells or (last and count.due > 0)
            if tells:
                told.append(_as_fact(count, mode))
                self._counts[name, mode] = _Count(count.stream, told_at=step)
        return told


def _as_fact(count: _Count, mode: Mode) -> Thinned:
    stream, since = count.stream, count.told_at or 0
    return Thinned(
        step=count.first if count.skipped else since,
        mode=mode,
        last_step=count.last if count.skipped else since,
        what=stream.name,
        kinds=stream.kinds,
        statistics=tuple(sorted(stream.statistics)),
        count=count.skipped,
        due=count.due,
    )
