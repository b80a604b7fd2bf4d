"""Choice of full and light steps.

A full step takes a few milliseconds more, for any model. These steps are full:

- the first steps, since most faults show there;
- then pairs of steps n and n + 1, where n is a multiple of a round number. This is the smallest
  number for which the pairs take no more than a part of the budget. It is at most a tenth of the
  step number, so a fault that only full steps show is found at most a tenth later;
- steps after a loss or a gradient norm has left its range, and the first steps of a loss that is
  new in the job, because another training run begins.

All other steps are light: their losses, gradient norms, and inputs are kept, and they are
guarded and replayed like full ones. In a process group, only the step number decides, so all
ranks observe the same steps in full. If even light steps cost too much, `step_sampling.py`
decides.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median

from mothtrap.capture.signals import Signals

FIRST, FEWEST = 64, 10
"""Number of full steps at the start, and number of those that are full regardless of their cost."""
FIRST_S = 1.5
"""Seconds that mothtrap may take in the first steps before steps become light; equals the credit
in `step_sampling.py`."""
TOGETHER = 2
"""Number of consecutive full steps: the next step shows the effect of a step."""
PART = 0.25
"""Part of the budget for the extra cost of full steps; the rest is for light steps and captures.
Chosen by hand.
"""
ALL = 2
"""Distance between pairs at which every step is full."""
ROUND = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
DENSITY = 10
"""The distance is at most the step number divided by this, but at least `ROUND[0]`."""
APART_IN_GROUP = 50
DECIDED_EVERY = 100
"""Interval, in steps, at which the distance is recomputed; not at each step, since times vary."""
LOOKED_AT, SIGNALS, SIGNALS_IN = 32, 3, 1000
"""Number of full steps after a signal, and maximum number of signals in a range of steps, so that
signals cause fewer than one full step in ten.
"""
MOST_LOSSES = 64
"""Number of losses whose first step is observed in full: a script that trains more models is a
search.
"""
REMEMBERED = 32
"""Number of steps of either kind whose times are stored."""


class Depths:
    """Decides for each step whether to observe it in full.

    Args:
        overhead: share of the training time; 0 = every step is watched in full.

    Attributes:
        all_full: the user requested data that only full steps have.
        in_group: other processes train together with this one, so only the step number decides.
        full_at: the next full step, as far as is known.
    """

    def __init__(self, overhead: float) -> None:
        self._overhead = overhead
        self.all_full = self.in_group = False
        self._first, self._first_s, self.full_at = 0, 0.0, 0
        self._every, self._decided = ALL, -1
        self._plain_s: deque[float] = deque(maxlen=REMEMBERED)
        self._full_s: deque[float] = deque(maxlen=REMEMBERED)
        self._light_s: deque[float] = deque(maxlen=REMEMBERED)
        self._signals = Signals()
        self._signalled: deque[int] = deque(maxlen=SIGNALS)
        self._losses: set[str] = set()
        self._looking_until = 0

    def begin(self, step: int) -> None:
        """Restart at `step`, the first step of this process."""
        self._first, self._decided, self.full_at = step, -1, step

    def go_on(self, step: int) -> None:
        """Continue when a step begins that is later than `full_at`."""
        every = self.every(step)
        looks_on = step < self._looking_until or step % every < TOGETHER
        self.full_at = step if looks_on else step + -step % every

    def is_full(self, step: int) -> bool:
        """Return whether a step, if observed, is observed in full."""
        if self._is_first(step) or step < self._looking_until:
            return True
        return step % self.every(step) < TOGETHER

    def every(self, step: int) -> int:
        """Return the interval between pairs of full steps; `ALL` if every step is full."""
        if self._is_first(step):
            return ALL
        most = max(number for number in ROUND if number <= max(ROUND[0], step // DENSITY))
        if self.in_group:
            return min(most, APART_IN_GROUP)
        decided = step - step % DECIDED_EVERY
        if decided != self._decided:
            self._decided, self._every = decided, self._affordable()
        return min(most, self._every)

    def loss(self, step: int, name: str, value: float) -> None:
        """Record a loss; the first loss of another training run causes full observation."""
        if name not in self._losses and len(self._losses) < MOST_LOSSES:
            self._losses.add(name)
            if step - self._first >= FIRST:
                self._extend_full_steps(step)
        if self._signals.leaves(name, value):
            self._extend_full_steps(step)

    def signal(self, step: int, name: str, value: float) -> None:
        """Record a norm; if it leaves its range, the following steps are observed in full."""
        if self._signals.leaves(name, value):
            self._extend_full_steps(step)

    def _extend_full_steps(self, step: int) -> None:
        if self.in_group or not self._overhead:
            return
        many = len(self._signalled) == SIGNALS and self._signalled[0] > step - SIGNALS_IN
        if self._looking_until - step <= TOGETHER and not many:
            self._signalled.append(step)
            self._looking_until = step + 1 + LOOKED_AT
            self.full_at = min(self.full_at, step + 1)

    def watched(self, step_s: float, own_s: float, captures_s: float, *, light: bool) -> None:
        """Record the time of a step.

        Args:
            step_s: total time of the step.
            own_s: time of mothtrap in it.
            captures_s: time of captures in that.
            light: it was not a full step.
        """
        self._first_s += own_s
        self._plain_s.append(step_s - own_s)
        (self._light_s if light else self._full_s).append(own_s - captures_s)

    def look_at(self, step: int) -> None:
        """Observe this step and the next one in full."""
        self._looking_until = max(self._looking_until, step + TOGETHER)
        self.full_at = min(self.full_at, step)

    def _is_first(self, step: int) -> bool:
        since = step - self._first
        if self.all_full or not self._overhead:
            return True
        if since >= FIRST:
            return False
        return since < FEWEST or self.in_group or self._first_s < FIRST_S

    def _affordable(self) -> int:
        """Return the smallest distance of pairs that the budget allows.

        The median is used, because a pause in a light step must not make full steps look cheap.
        """
        if not self._full_s:
            return ALL
        share_s = PART * self._overhead * median(self._plain_s)
        full_s = fmean(self._full_s)
        if not self._light_s:
            return ALL if full_s <= share_s else ROUND[0]
        needed_s = TOGETHER * max(0.0, full_s - median(self._light_s))
        return next((k for k in (ALL, *ROUND) if k * share_s >= needed_s), ROUND[-1])
