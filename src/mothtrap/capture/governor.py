"""Keeps the overhead of mothtrap within its share of the training time.

A step of `t` seconds earns `overhead * t`. The time of hooks, records, and the norms of the
non-finite checks is subtracted first, because these cannot be thinned. The rest is paid into
budgets, one for each stream (a reason to capture). A stream may capture when its budget covers
the expected cost of a capture. Afterwards, the actual cost is subtracted. So over any range of
steps

    own time <= overhead * time + the content of the budgets at the beginning

A budget holds at most the cost of one capture and the pay of one step. So the right side
approaches the overhead as soon as the range is long compared with one capture of each stream.
The duration of a step is not assumed anywhere: if steps become ten times shorter, the pay is ten
times smaller from the next step on.

Priorities. The budgets of a priority are filled before the budgets of the next priority
(`Priority`). If the pay is too small for all of them, copies are skipped first, then activations,
then weights, and gradients last. Streams of equal priority get the same number of seconds, and the
part that a full budget does not need goes to the others. So cheap streams do not starve expensive
ones, and a stream that is due every 50 steps can save while others are due at every step.

Special cases:

- The first capture of a stream is free, because it includes imports and the first use of memory.
  The second capture is on credit, because its cost is known only afterwards. It gets a bonus of the
  usual pay, so that cheap streams are not thinned while the budgets first fill up.
- Time without steps earns nothing. A step that earns more than ten usual steps was a pause, and
  pays like a usual step.
- If hooks took more than a step earned, later steps pay the debt, limited to the pay of
  `OWED_STEPS` steps. So the debt is paid soon after steps become longer.
- If hooks use up the whole pay, as with steps of a few milliseconds, captures still get a tenth
  of the time of the hooks. So the budget is exceeded by at most a tenth if the hooks alone are
  within it, and rules still get data in short steps.

If hooks alone take many times the budget, most steps are not observed at all
(`step_sampling.py`), and the time of these steps pays for the observed ones.

Not counted: background threads that write and evaluate, which sleep 500 times as long as they
work, and the cost of hooks outside of their own measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

FIRST_STEPS = 8
"""Steps at the start whose fixed cost is never a debt, since they are observed in full."""
OWED_STEPS = 200
"""Number of steps: ten times longer steps pay as much in 20; chosen by hand."""
PAUSE_STEPS = 10
"""Longest step, in multiples of a usual step; chosen by hand for evaluations and slow loaders."""
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
        self._equals: list[list[_Budget]] = []  # one list per priority, first paid first
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
        # A hook adds its time when it ends, which for the last hook is after its captures were
        # reported, so a negative amount is carried over to the next step.
        fixed_s = max(0.0, self._fixed_s)
        self._fixed_s -= fixed_s
        if self._steps == 1:  # it includes the import
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
    """Pay equal parts into budgets; return the remainder when all are full.

    Args:
        budgets: each has at most the cost of a capture plus `spare_s`.
        pay_s: time for all of them.
        spare_s: usual pay of a step, so that no remainder is lost while a budget waits for more.
    """
    rooms = []
    for place, budget in enumerate(budgets):  # the order decides between budgets with the same room
        rooms.append((budget.cost_s + spare_s - budget.held_s, place, budget))
    rooms.sort()
    waiting = len(rooms)
    for room_s, _, budget in rooms:
        part_s = min(pay_s / waiting, max(0.0, room_s))
        budget.held_s = min(budget.held_s, budget.cost_s + spare_s) + part_s
        pay_s -= part_s
        waiting -= 1
    return pay_s
