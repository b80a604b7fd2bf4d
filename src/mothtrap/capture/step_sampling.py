"""Step sampling: chooses the observed steps if observing all of them costs too much.

The governor thins captures, and most steps are light (`depths.py`). The remaining time per step
is fixed. It is paid from an account with a credit for the first steps of a job. Each step adds
its share of the training time. If the account is overdrawn, and light steps alone cost more than
the budget allows, only steps whose number is a multiple of a round number, and their successors,
are observed, in full. So two runs of a job have observed steps in common.

The number is the smallest with `own time of observed steps <= overhead * time of all steps`.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median

from mothtrap.capture.depths import FIRST

CREDIT_S = 1.5
"""Processor seconds that observation may take before the budget applies; chosen by hand."""
FIRST_STEPS = FIRST
"""Steps at the start that are always observed."""
DENSE_STEPS, SPARSEST = 2000, 20
"""Up to the first number of steps, the round number is at most the second one, so one step in ten
is observed, and rules that need 100 steps get them. Chosen by hand.
"""
AFTER_CUTS = 200
"""Steps that are observed after `MOST_CUT` skipped ranges; chosen by hand."""
TOGETHER = 2
"""Number of consecutive observed steps: the next step shows the effect of a step."""
EXCESS = 2.5
"""Cost of a light step, in multiples of the budget, from which steps are skipped. Skipped steps
cannot be replayed, which is a high price for three percent. Chosen by hand.
"""
ROUND = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
REMEMBERED, SAMPLINGS_REMEMBERED = 32, 8
"""Number of observed steps, and of skipped ranges, whose times are stored."""
LONGER = 4
"""Duration of a long step, in multiples of the expected duration."""
MOST_LONG = 10
"""Excess of long steps over short steps from which steps count as longer. Single long steps are
pauses of the machine, or begin an epoch."""
MOST_CUT = 3
"""Number of consecutive skipped ranges that ended early, after which steps are observed for some
time, because the loop contains more than training steps.
"""
WORTH_IT = 8
"""Skipped steps from which a range counts as long enough, even if it ended early. By hand."""


class _Took:
    """Times of the latest steps with the same depth."""

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
            light: whether it was a light step.
            busy: share of the time in which the thread had a processor, because a job on a shared
                machine must not pay for other jobs.
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
        """Return the time of a step that is not observed."""
        plain_s = median(self._plain_s)
        return min(plain_s, median(self._rest_step_s)) if self._rest_step_s else plain_s

    def _own(self, took: _Took, plain_s: float) -> float:
        """Return the extra time of an observed step.

        Observation slows down code by more than the time in hooks, since hooks evict it from the
        caches. Skipped steps show the time without this effect.
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
