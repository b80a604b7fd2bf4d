"""Schedules of capture, counted in steps of a mode."""

from __future__ import annotations

import msgspec


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedule of the captured steps of a mode.

    Steps are counted from 0 in the mode: optimizer steps in training, forward passes in
    evaluation.

    `every` captures every n-th step from `start` on. Without it, each step is captured, unless
    `steps` or `logarithmic` is given. `start` is the first step. `stop` is the step after the
    last one; by default the schedule lasts until the end of the run. `steps` lists additional
    steps, which may lie outside `start` and `stop`. `logarithmic` captures steps ever more
    rarely: 0, 1, 2 ... 9, 10, 20 ... 90, 100, 200 ..., counted from `start`.
    """

    every: int | None = None
    start: int = 0
    stop: int | None = None
    steps: tuple[int, ...] = ()
    logarithmic: bool = False

    def is_due(self, step: int) -> bool:
        """Return True if a step is captured."""
        return step in self.next_due(step)

    def next_due(self, step: int) -> range:
        """Return the next range of captured steps at or after `step`.

        The range has several steps if consecutive steps are captured. It is empty and starts at
        `FAR` if the schedule is over.
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
        """Return True if neither `step` nor any later step is captured.

        A schedule with a `stop` is over at that step, even if its last captured step was earlier.
        """
        ended = self.stop is not None and step >= self.stop
        only_steps = bool(self.steps) and self.every is None and not self.logarithmic
        return (ended or only_steps) and all(step > last for last in self.steps)

    def next_named(self, step: int) -> int:
        """Return the first explicitly requested step at or after `step`; `FAR` if there is none.

        Explicitly requested are `steps`, and all steps from `start` to `stop` if `stop` is given.
        """
        named = [number for number in self.steps if number >= step]
        if self.stop is not None and step < self.stop:
            named.append(max(step, self.start))
        return min(named, default=FAR)

    def complaint(self) -> str | None:
        """Return why a schedule is invalid, beginning with the key; None if it is valid."""
        if self.every is not None and self.every < 1:
            return f"every must be 1 step or more, not {self.every}"
        if self.every is not None and self.logarithmic:
            return "every and logarithmic cannot be combined; keep one of them"
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
