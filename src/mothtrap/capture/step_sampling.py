"""Step sampling: which steps are watched where watching all of them costs too much.

The governor thins captures, and most steps are light (`depths.py`); what is left takes a fixed
time. An account pays for it: a credit for the first steps of a job, then the share of the
training time that mothtrap may take. When the account is overdrawn and light steps alone cost
more than the budget allows, only the steps are watched, in full, whose numbers are multiples of
a round number, and those next to them, so that two runs of a job have steps in common.

The number is the smallest with `own time of the watched <= overhead * time of all`.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median

from mothtrap.capture.depths import FIRST

CREDIT_S = 1.5
"""Processor seconds that watching may cost before the budget counts; chosen by hand."""
FIRST_STEPS = FIRST
"""Steps at the start that are watched, whatever they cost."""
DENSE_STEPS, SPARSEST = 2000, 20
"""Up to this step the number is at most this, so that one step in ten is watched: rules that ask
for 100 steps find them. Chosen by hand."""
AFTER_CUTS = 200
"""Steps that are watched after `MOST_CUT`; chosen by hand."""
TOGETHER = 2
"""Steps watched one after the other: what a step did shows in the next."""
EXCESS = 2.5
"""So many times the budget may a light step take before a job is sampled: steps that no one sees
cannot be replayed, which is a high price for three per cent. Chosen by hand."""
ROUND = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
REMEMBERED, SAMPLINGS_REMEMBERED = 32, 8
"""Watched steps, and rests, whose times are remembered."""
LONGER = 4
"""A step that takes so many times as long as expected is a long one."""
MOST_LONG = 10
"""Long steps beyond short ones after which steps became longer. Single ones are pauses of the
machine, or begin a pass over the data."""
MOST_CUT = 3
"""Rests in a row that something cut short, after which steps are watched for a while: there is
more in this loop than training steps."""
WORTH_IT = 8
"""Steps of a rest that is not too short, though an evaluation ended it. Chosen by hand."""


class _Took:
    """The times of the latest steps that were watched alike."""

    def __init__(self) -> None:
        self.step_s: deque[float] = deque(maxlen=REMEMBERED)
        self.own_s: deque[float] = deque(maxlen=REMEMBERED)


class StepSampler:
    """Decides, after each observed step, which step to observe next.

    Args:
        overhead: share of the training time; 0 = every step is watched.
    """

    def __init__(self, overhead: float) -> None:
        self._overhead = overhead
        self._plain_s: deque[float] = deque(maxlen=REMEMBERED)
        self._full, self._light = _Took(), _Took()
        self._latest = self._full
        self._rest_step_s: deque[float] = deque(maxlen=SAMPLINGS_REMEMBERED)
        self._full_steps = FIRST_STEPS
        self._account_s, self._is_overdrawn = CREDIT_S, False
        self._every = ROUND[-1]
        self._cut = 0

    def watched(
        self, step_s: float, own_s: float, *, light: bool = False, busy: float = 1.0
    ) -> None:
        """Record the time of an observed step, and mothtrap's share of it.

        Args:
            step_s: total time of the step.
            own_s: time of mothtrap in it.
            light: it was not a full step.
            busy: share of it in which the thread had a processor: on a shared machine, a job must
                not pay for other jobs.
        """
        self._full_steps = max(0, self._full_steps - 1)
        self._plain_s.append(step_s - own_s)
        took = self._latest = self._light if light else self._full
        took.step_s.append(step_s)
        took.own_s.append(own_s)
        self._account_s += busy * (self._overhead * step_s - own_s)
        self._is_overdrawn = self._is_overdrawn or self._account_s < 0.0

    def rested(self, own_s: float) -> None:
        """Record mothtrap's time since the end of the last observed step."""
        self._latest.own_s[-1] += own_s

    def next_after(self, step: int) -> int:
        """Return the next step to observe, once `step` is over."""
        following = step + 1
        if not self._overhead or self._full_steps or not self._is_overdrawn:
            return following
        if 0 < following % self._every < TOGETHER:
            return following
        plain_s = self._plain()
        share_s = self._overhead * plain_s
        if self._own(self._light if self._light.own_s else self._full, plain_s) <= EXCESS * share_s:
            return following
        needed = TOGETHER * self._own(self._full, plain_s)
        every = next((number for number in ROUND if number * share_s >= needed), ROUND[-1])
        if following < DENSE_STEPS:
            every = min(every, SPARSEST)
        self._every = every
        return following if following % every < TOGETHER else following + -following % every

    def long_s(self) -> float:
        """Return the duration from which a skipped step counts as long."""
        return LONGER * median(self._plain_s)

    def ended(self, planned: int, steps: int, took_s: float) -> None:
        """Record how many of `planned` steps were skipped, and how long they took."""
        if steps:
            self._rest_step_s.append(took_s / steps)
        self._cut = self._cut + 1 if steps < min(planned / 2, WORTH_IT) else 0
        if self._cut == MOST_CUT:
            self._cut, self._full_steps = 0, AFTER_CUTS

    def is_due(self, step: int) -> bool:
        """Return whether skipping ended as planned, and not early."""
        return step % self._every < TOGETHER

    def _plain(self) -> float:
        """Return the time of a step that is not watched."""
        plain_s = median(self._plain_s)
        return min(plain_s, median(self._rest_step_s)) if self._rest_step_s else plain_s

    def _own(self, took: _Took, plain_s: float) -> float:
        """Return what a step takes longer where it is watched.

        Code that is watched is slower than by the time in hooks alone, since these empty the
        caches; what a rest shows has nothing of it.
        """
        own_s = fmean(took.own_s)
        return max(own_s, median(took.step_s) - plain_s) if self._rest_step_s else own_s


class LongSteps:
    """Detects that skipped steps have become longer.

    Args:
        long_s: duration from which on a step counts as long.
    """

    def __init__(self, long_s: float) -> None:
        self._long_s = long_s
        self._excess = 0

    def are_many(self, step_s: float) -> bool:
        """Record the time of a step; return whether sampling should pause."""
        self._excess = self._excess + 1 if step_s > self._long_s else max(0, self._excess - 1)
        return self._excess > MOST_LONG
