"""The targets of each loss call site, step by step, for `TargetOrder`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mothtrap.core.facts.data import TargetOrder

MAX_STEPS: Final = 512
"""Maximum number of stored steps of a call site."""
REPORTED_AT: Final = (8, 16, 32, 64, 128, 256, MAX_STEPS)
"""Numbers of steps after which the targets are reported."""
BINS: Final = 64
"""Number of groups into which classes are combined."""

Moments = tuple[float, float, float]
"""Number, mean, and variance of values."""


@dataclass(slots=True)
class TargetsInOrder:
    """The targets of one loss call site; the last entry belongs to the latest step.

    Attributes:
        site: Call site of the loss.
        location: Line of the call site.
        loaded: The targets come from the loader's batch, not from the loss.
        steps: Stored steps.
        counts: Targets in each group of classes, by step.
        moments: Moments of the values of a regression, by step.
    """

    site: str
    location: str | None
    loaded: bool = False
    steps: list[int] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)

    def is_due(self, step: int) -> bool:
        """Return whether a step begins after a number of steps at which to report."""
        return len(self.steps) in REPORTED_AT and self.steps[-1] != step

    def add_counts(self, step: int, counts: Sequence[int]) -> bool:
        """Add the targets of a class loss, for at most `BINS` groups of classes.

        Returns:
            Whether they were stored. Counts and values of one site are not mixed.
        """
        if self.moments:
            return False
        if self._is_latest(step):
            pairs = itertools.zip_longest(self.counts[-1], counts, fillvalue=0)
            self.counts[-1] = [one + other for one, other in pairs]
        elif self._begin(step):
            self.counts.append(list(counts))
        return True

    def add_values(self, step: int, moments: Moments) -> bool:
        """Add the targets of a regression; return as `add_counts` does."""
        if self.counts:
            return False
        if self._is_latest(step):
            self.moments[-1] = _merged(self.moments[-1], moments)
        elif self._begin(step):
            self.moments.append(moments)
        return True

    def fact(
        self, step: int, *, loader: str | None = None, sampler: str | None = None
    ) -> TargetOrder:
        """Return the fact that records all stored steps."""
        classes = max((len(counts) for counts in self.counts), default=0)
        return TargetOrder(
            step=step,
            site=self.site,
            steps=tuple(self.steps),
            counts=tuple((*c, *[0] * (classes - len(c))) for c in self.counts),
            moments=tuple(self.moments),
            loader=loader,
            sampler=sampler,
            loaded=self.loaded,
            location=self.location,
        )

    def _is_latest(self, step: int) -> bool:
        return bool(self.steps) and self.steps[-1] == step

    def _begin(self, step: int) -> bool:
        if len(self.steps) >= MAX_STEPS:
            return False
        self.steps.append(step)
        return True


def _merged(a: Moments, b: Moments) -> Moments:
    count = a[0] + b[0]
    mean = (a[0] * a[1] + b[0] * b[1]) / count
    spread = a[0] * (a[2] + (a[1] - mean) ** 2) + b[0] * (b[2] + (b[1] - mean) ** 2)
    return count, mean, spread / count
