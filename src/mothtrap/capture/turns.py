"""Which streams are due at a step, without asking each schedule at each step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mothtrap.capture.selection import Stream
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode


@dataclass(slots=True)
class _Turn:
    """A stream, and the steps at which it is due next; those before are over."""

    stream: Stream
    schedule: Schedule
    steps: range


class Turns:
    """The streams of one mode, each with the steps at which it is due next.

    Args:
        streams: all that are in force.
        mode: whose steps are counted.
    """

    def __init__(self, streams: Iterable[Stream], mode: Mode) -> None:
        self._step = 0
        self._turns: list[_Turn] = []
        for stream in streams:
            schedule = stream.schedules.get(mode)
            if schedule is not None:
                self._turns.append(_Turn(stream, schedule, schedule.next_due(0)))

    def due(self, step: int) -> list[Stream]:
        """Return the streams that are due at a step, in the order in which they were given."""
        is_earlier = step < self._step  # then what comes next is not known any more
        self._step = step
        due = []
        for turn in self._turns:
            if step >= turn.steps.stop or is_earlier:
                turn.steps = turn.schedule.next_due(step)
            if step in turn.steps:
                due.append(turn.stream)
        return due
