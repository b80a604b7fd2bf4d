"""Schedule for inspecting trees, importance, and predictions, and the shape of trees."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.trees import FeatureGains, TreesGrown

EACH_ROUND: Final = 10
"""Number of first rounds whose trees are all inspected, and the interval of inspected rounds after
that."""
ANYWAY: Final = 4
"""Number of first rounds whose importance and predictions are always inspected. Number of trees
that are always inspected; later trees depend on the time budget.
"""
GROWTH: Final = 1.25
"""Factor by which the number of rounds must grow between two readings of importance, whose duration
depends on the number of trees.
"""
SCORED: Final = 2.0
"""Growth factor of the number of rounds between two comparisons of predictions and labels."""
SHOWN: Final = 32


def is_looked_at(made: int) -> bool:
    """Return whether the trees of a round are inspected, given its number from 0."""
    return made < EACH_ROUND or made % EACH_ROUND == 0


class Allowance:
    """Time budget for inspections of a model, as a share of the training time.

    Args:
        share: share of the time since the first inspection; 0 = no limit.
        clock: returns seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._began, self._spent, self._latest = clock(), 0.0, 0.0

    def covers_a_look(self) -> bool:
        """Return whether one more inspection, as long as the latest, fits in the budget."""
        passed = self._clock() - self._began
        return not self._share or self._spent + self._latest <= self._share * passed

    def spend(self, look: Callable[[], None]) -> None:
        """Run an inspection."""
        began = self._clock()
        try:
            look()
        finally:
            self._latest = self._clock() - began
            self._spent += self._latest


class Schedule:
    """Schedule of rounds whose numbers grow by a factor.

    Args:
        growth: growth factor from one scheduled round to the next round.
    """

    def __init__(self, growth: float) -> None:
        self._growth, self._next = growth, 1

    def is_due(self, rounds: int) -> bool:
        """Return whether an inspection is due after a number of rounds."""
        if rounds < self._next:
            return False
        self._next = max(rounds + 1, int(rounds * self._growth))
        return True


def grown(
    trees: Sequence[npt.NDArray[np.float64]],
    depth: int,
    *,
    step: int,
    fit: str,
    made: int,
    rows: int,
) -> TreesGrown:
    """Return the shape of the trees of a round."""
    sizes = [len(values) for values in trees]
    largest = max((float(np.abs(values).max()) for values in trees if len(values)), default=0.0)
    return TreesGrown(
        step=step,
        fit=fit,
        round=made,
        trees=len(trees),
        leaves=float(np.mean(sizes)) if sizes else 0.0,
        depth=depth,
        largest_leaf=largest,
        rows=rows,
    )


def shares(
    gain: Mapping[str, float], *, step: int, fit: str, made: int, columns: int
) -> FeatureGains | None:
    """Return each feature's share in the gain of all splits; None if there is no gain."""
    gain = {name: float(value) for name, value in gain.items() if value > 0}
    total = sum(gain.values())
    if not total > 0:
        return None
    largest = sorted(gain, key=lambda name: -gain[name])[:SHOWN]
    return FeatureGains(
        step=step,
        fit=fit,
        round=made,
        features=tuple(largest),
        shares=tuple(gain[name] / total for name in largest),
        used=len(gain),
        columns=columns,
    )
