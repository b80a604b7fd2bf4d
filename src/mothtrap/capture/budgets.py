"""Time budgets: of mothtrap's own captures, and of each collection with a limit."""

from __future__ import annotations

from mothtrap.capture.governor import Governor
from mothtrap.capture.selection import Stream

MOST_UNPAID = 256
"""Maximum number of steps whose shares are collected."""


class Budgets:
    """Applies the time budget of each stream, and accounts for users' captures separately.

    Requested captures are always made, unless their collection sets `overhead`. Their cost does not
    reduce the budget of mothtrap's own captures.

    Args:
        overhead: share of the training time, see `Governor`.

    Attributes:
        asked_s: seconds that requested captures have taken so far.
    """

    def __init__(self, overhead: float) -> None:
        self._own = Governor(overhead)
        self._of_collections: dict[tuple[str, float], Governor] = {}
        self._spent: dict[Governor, dict[str, float]] = {}
        self.asked_s = self._told_s = 0.0
        self._unpaid: list[tuple[float, float]] = []

    def begin(self) -> None:
        """Start to count the cost of users' captures."""
        self.asked_s = self._told_s = 0.0

    def admits(self, stream: Stream) -> bool:
        """Return whether a stream may capture in the step that begins."""
        if self._unpaid:
            self._pay()
        return stream.essential or self._governor(stream).admits(stream.name, stream.priority)

    def charge(self, stream: Stream, cost_s: float) -> None:
        """Charge a cost to a stream."""
        if stream.is_asked:
            self.asked_s += cost_s
        if not stream.essential:
            costs = self._spent.setdefault(self._governor(stream), {})
            costs[stream.name] = costs.get(stream.name, 0.0) + cost_s

    def earn(self, step_s: float, own_s: float) -> None:
        """Credit the budget with the share of a step, or of an evaluation forward pass.

        The credit of steps without captures is collected until a capture needs it, which never
        happens in light steps.

        Args:
            step_s: time of the step.
            own_s: time of mothtrap in it, including captures.
        """
        if self._spent or self._of_collections or self.asked_s != self._told_s:
            self._pay()
            self._settle(step_s, own_s)
        else:
            self._unpaid.append((step_s, own_s))
            if len(self._unpaid) >= MOST_UNPAID:
                self._pay()

    def _pay(self) -> None:
        unpaid, self._unpaid = self._unpaid, []
        for step_s, own_s in unpaid:
            self._own.earn(step_s, own_s)

    def _settle(self, step_s: float, own_s: float) -> None:
        for governor, costs in self._spent.items():
            for name, cost_s in costs.items():
                governor.spent(name, cost_s)
        asked_s, self._told_s = self.asked_s - self._told_s, self.asked_s
        self._own.earn(step_s, own_s - asked_s)
        for governor in self._of_collections.values():
            governor.earn(step_s, sum(self._spent.get(governor, {}).values()))
        self._spent.clear()

    def rested(self) -> None:
        """Record that the next step includes the time of steps that were not observed."""
        self._pay()
        for governor in (self._own, *self._of_collections.values()):
            governor.rested()

    def _governor(self, stream: Stream) -> Governor:
        if stream.overhead is None:
            return self._own
        key = stream.collection, stream.overhead
        if key not in self._of_collections:
            self._of_collections[key] = Governor(stream.overhead)
        return self._of_collections[key]
