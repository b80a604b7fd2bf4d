"""Streams due at a step, found without querying each schedule at each step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mothtrap.capture.selection import Stream
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode


@dataclass(slots=True)
class _Turn:
    """A stream, and the next steps at which it is due; earlier steps are removed."""

    stream: Stream
    schedule: Schedule
    steps: range


class Turns:
    """The streams of one mode, each with its next due steps.

    Args:
        streams: all active streams.
        mode: mode whose steps are counted.
    """

    def __init__(self, streams: Iterable[Stream], mode: Mode) -> None:
        self._step = -1
        self._due: list[Stream] = []
        self._turns: list[_Turn] = []
        for stream in streams:
            schedule = stream.schedules.get(mode)
            if schedule is not None:
                self._turns.append(_Turn(stream, schedule, range(0)))

    @property
    def is_any(self) -> bool:
        """Return whether any stream of this mode is active."""
        return bool(self._turns)

    def due(self, step: int) -> list[Stream]:
        """Return the streams that are due at a step, in their original order.

        A stream that became due after the last queried step is due at the next one.
        """
        if step == self._step:
            return self._due
        begins = self._step < 0 or step < self._step  # the next step is unknown
        self._step, self._due = step, []
        for turn in self._turns:
            if begins:
                turn.steps = turn.schedule.next_due(step)
            if turn.steps.start <= step:
                self._due.append(turn.stream)
                if step + 1 >= turn.steps.stop:
                    turn.steps = turn.schedule.next_due(step + 1)
        return self._due
