"""When to capture, counted in steps of a mode."""

from __future__ import annotations

import msgspec


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which steps of a mode are captured.

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
        """Whether a step is captured."""
        if step in self.steps:
            return True
        if step < self.start or (self.stop is not None and step >= self.stop):
            return False
        since = step - self.start
        if self.logarithmic:
            return _has_one_digit(since)
        if self.every is None:
            return not self.steps
        return since % self.every == 0

    def is_over(self, step: int) -> bool:
        """Whether neither `step` nor any later one is captured."""
        ended = self.stop is not None and step >= self.stop
        only_steps = bool(self.steps) and self.every is None and not self.logarithmic
        return (ended or only_steps) and all(step > last for last in self.steps)

    def complaint(self) -> str | None:
        """What about this schedule makes no sense, in words that begin with the key."""
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


EVERY_STEP = Schedule()


def _has_one_digit(step: int) -> bool:
    """Whether a number is one digit and zeros."""
    while step >= 10 and step % 10 == 0:
        step //= 10
    return step < 10
