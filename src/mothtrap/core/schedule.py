"""Schedules of capture, counted in steps of a mode."""

from __future__ import annotations

import msgspec


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedule of the captured steps of a mode.

    Steps are those of the mode: optimizer steps of a training, forwards of an
    evaluation, both counted from 0.

    `every`: each so many steps, counted from `start`; not given means each step, unless
    `steps` or `logarithmic` say otherwise. `start` is the first step, `stop` the step
    before which it ends (not given: the end of the run). `steps` are further steps,
    wherever they lie. `logarithmic`: the first steps densely, later ones ever more
    rarely: 0, 1, 2 ... 9, 10, 20 ... 90, 100, 200 ..., counted from `start`.
    """

    every: int | None = None
    start: int = 0
    stop: int | None = None
    steps: tuple[int, ...] = ()
    logarithmic: bool = False

    def is_due(self, step: int) -> bool:
        """Return whether a step is captured."""
        return step in self.next_due(step)

    def next_due(self, step: int) -> range:
        """Return the next steps from `step` on that are captured.

        One, or more where each after it is captured too; none, at `FAR`, if the schedule is over.
        """
        begin, length = max(step, self.start), 1
        since = begin - self.start
        if self.logarithmic:  # one digit and zeros
            begin += -since % 10 ** (len(str(since)) - 1)
        elif self.every is not None:
            begin += -since % self.every
            length = FAR if self.every == 1 else 1
        elif not self.steps:
            length = FAR
        else:
            begin, length = FAR, 0
        end = begin + length if self.stop is None else min(begin + length, self.stop)
        if begin >= end:
            begin = end = FAR
        for number in self.steps:
            if step <= number < begin:
                begin, end = number, number + 1
        return range(begin, end)

    def is_over(self, step: int) -> bool:
        """Return whether neither `step` nor any later one is captured.

        A stretch of steps is over at its `stop`, whichever of them was the last.
        """
        ended = self.stop is not None and step >= self.stop
        only_steps = bool(self.steps) and self.every is None and not self.logarithmic
        return (ended or only_steps) and all(step > last for last in self.steps)

    def next_named(self, step: int) -> int:
        """Return the first step from `step` on that is named; `FAR` if there is none.

        Named are `steps`, and all between `start` and `stop` where both are given.
        """
        named = [number for number in self.steps if number >= step]
        if self.stop is not None and step < self.stop:
            named.append(max(step, self.start))
        return min(named, default=FAR)

    def complaint(self) -> str | None:
        """Return the complaint about an inconsistent schedule, in words that begin with the key."""
        if self.every is not None and self.every < 1:
            return f"every must be 1 step or more, not {self.every}"
        if self.every is not None and self.logarithmic:
            return "every and logarithmic exclude each other; keep one of them"
        if self.start < 0:
            return f"start must be step 0 or later, not {self.start}"
        if self.stop is not None and self.stop <= self.start:
            return f"stop must be later than start ({self.start}), not {self.stop}"
        if any(step < 0 for step in self.steps):
            return f"steps must be 0 or more, not {min(self.steps)}"
        return None


FAR = 2**63 - 1
"""Later than any step."""
EVERY_STEP = Schedule()
