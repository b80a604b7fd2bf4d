"""Keeps what mothtrap costs a training within its share of the time.

The law. A step of `t` seconds earns `overhead * t`. From that goes first what mothtrap itself
took in the step beside captures that can be thinned: hooks, records, the norms that the
non-finite checks need. The rest is paid into budgets, one for each stream (one reason to
capture). A stream may capture when its budget holds what a capture of it is expected to cost,
and then the true cost is taken out, be it more or less. So over any stretch of steps

    own time <= overhead * time + what the budgets held at its beginning

and as a budget holds at most one capture and the pay of one step, the right side is the overhead
as soon as the stretch is long against one capture of each stream. Nothing in this knows how
long a step takes: when steps become ten times shorter, the pay does with the next one.

Who goes short. The budgets of one priority are filled before those of the next get anything
(`Priority`): where the pay does not suffice for all, copies are shed first, then activations,
then weights, gradients last. Streams of equal priority get the same number of seconds, and what
a full budget does not take goes to the others: a cheap stream starves no expensive one, and one
that is due each 50 steps saves for its turn while others are due at every step.

What bounds the law at its ends:

- The first capture of a stream is free, since it pays for imports and first-touched memory. The
  second is on credit, since only then the cost is known; towards it goes a gift of what a step
  usually pays, so that cheap streams are not thinned while the budgets fill for the first time.
- Time without steps buys nothing: a step that earns more than ten usual ones was a pause, and
  pays like a usual one.
- Where hooks took more than a step earned, later steps owe it: for at most `OWED_STEPS` steps'
  pay, so that it is over soon after steps became longer.
- Where they leave nothing at all, as with steps of a few milliseconds, captures still get a
  tenth of what the hooks take. So the budget is exceeded by a tenth of it at most where the
  hooks alone are within it, and short steps do not leave the rules blind.

Where hooks alone take many times the budget, most steps are not watched at all
(`step_sampling.py`), and the time of those pays for the ones that are.

What is not counted: threads that write and judge beside the training, which rest for 500 times
as long as they work, and what the hooks cost outside of what they measure themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

FIRST_STEPS = 8
"""Steps at the start whose fixed cost is owed by no later step: they are inspected in full."""
OWED_STEPS = 200
"""Ten times longer steps pay as much in 20; chosen by hand."""
PAUSE_STEPS = 10
"""So many times longer may a step be; chosen by hand: as evaluations and slow loaders make it."""
SMOOTHING = 0.3
"""Weight of the newest value in a running mean; chosen by hand."""
HOOKS_PART = 0.1
"""Share of the hooks' time that captures always get: 0.2 percentage points of 2 %."""
TRIALS = 2


class Priority(IntEnum):
    """Order in which streams are paid; the last are shed first."""

    GRADIENTS = 0
    WEIGHTS = 1
    ACTIVATIONS = 2
    COPIES = 3


@dataclass(slots=True)
class _Budget:
    """Budget of a stream, in seconds; negative after a capture that cost more than expected."""

    priority: Priority
    held_s: float = 0.0
    cost_s: float = 0.0
    captures: int = 0
    is_new: bool = True


class Governor:
    """Decides which streams may capture; streams for non-finite checks are exempt.

    Args:
        overhead: share of the training time, e.g. 0.02; 0 turns the governor off.
    """

    def __init__(self, overhead: float) -> None:
        self._overhead = overhead
        self._budgets: dict[str, _Budget] = {}
        self._equals: list[list[_Budget]] = []  # of one priority each, the first paid first
        self._usual_s = self._fixed_s = self._owed_s = 0.0
        self._steps = 0
        self._rested = False

    def admits(self, stream: str, priority: Priority) -> bool:
        """Return whether a stream may capture in the step that begins."""
        budget = self._budgets.get(stream)
        if budget is None:
            budget = self._budgets[stream] = _Budget(priority)
            self._equals = self._by_priority()
        elif budget.priority is not priority:  # other tensors were requested under its name
            budget.priority = priority
            self._equals = self._by_priority()
        return not self._overhead or budget.captures < TRIALS or budget.held_s >= budget.cost_s

    def spent(self, stream: str, cost_s: float) -> None:
        """Record the cost of a capture of a stream."""
        budget = self._budgets[stream]
        budget.captures += 1
        self._fixed_s -= cost_s
        if budget.captures <= TRIALS:
            budget.cost_s = cost_s
        else:
            budget.cost_s += SMOOTHING * (cost_s - budget.cost_s)
        if budget.captures > 1:
            budget.held_s -= cost_s

    def earn(self, step_s: float, own_s: float) -> None:
        """Credit the share of a step.

        Args:
            step_s: time of the step.
            own_s: time of mothtrap in it, including captures.
        """
        self._steps += 1
        self._fixed_s += own_s
        # A hook adds its time when it ends, which for the last one is after its captures are
        # told: less than nothing is kept for the next step.
        fixed_s = max(0.0, self._fixed_s)
        self._fixed_s -= fixed_s
        if self._steps == 1:  # it began with the import
            return
        if self._steps <= FIRST_STEPS:
            fixed_s = 0.0
        share_s = self._overhead * step_s
        usual_s = self._usual_s or share_s
        left_s = share_s - fixed_s - self._owed_s
        rested, self._rested = self._rested, False
        if left_s > PAUSE_STEPS * usual_s and not rested:
            left_s = usual_s
        usual_s += SMOOTHING * (min(share_s, PAUSE_STEPS * usual_s) - usual_s)
        self._usual_s = usual_s
        self._owed_s = min(max(0.0, -left_s), OWED_STEPS * usual_s)
        pay_s = max(left_s, min(share_s, HOOKS_PART * fixed_s))
        for budget in self._budgets.values():
            if budget.is_new and budget.captures:
                budget.is_new, budget.held_s = False, budget.held_s + usual_s
        for budgets in self._equals:
            pay_s = _fill(budgets, pay_s, usual_s)

    def rested(self) -> None:
        """Mark the next reported step as long because unobserved steps came before it."""
        self._rested = True

    def _by_priority(self) -> list[list[_Budget]]:
        every = self._budgets.values()
        equals = ([p for p in every if p.priority is priority] for priority in Priority)
        return [budgets for budgets in equals if budgets]


def _fill(budgets: Iterable[_Budget], pay_s: float, spare_s: float) -> float:
    """Pay equal parts into budgets; return what is left when all are full.

    Args:
        budgets: hold at most the cost of a capture plus `spare_s`.
        pay_s: time for all of them.
        spare_s: what a step usually pays, so that a rest is not lost while it waits for more.
    """
    rooms = []
    for place, budget in enumerate(budgets):  # the place decides where two have the same room
        rooms.append((budget.cost_s + spare_s - budget.held_s, place, budget))
    rooms.sort()
    waiting = len(rooms)
    for room_s, _, budget in rooms:
        part_s = min(pay_s / waiting, max(0.0, room_s))
        budget.held_s = min(budget.held_s, budget.cost_s + spare_s) + part_s
        pay_s -= part_s
        waiting -= 1
    return pay_s
