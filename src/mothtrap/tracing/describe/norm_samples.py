"""Number of samples that the batch norms of a model receive in training."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from mothtrap.core.facts.evaluations import NormBatches

REPORTED_EVERY: Final = 8
"""Number of inspected forwards before a report, and between reports."""


@dataclass(slots=True)
class NormSamples:
    """Counts over the sampled forward passes of one model."""

    looked_at: int = 0
    single: int = 0
    few: int = 0
    fewest: int = 2**31
    sizes: Counter[int] = field(default_factory=Counter)
    _reported: int = 0

    def add(self, size: int) -> bool:
        """Add the number of samples of a forward pass; return whether it is the smallest so far."""
        self.looked_at += 1
        self.single += size == 1
        self.few += size < 4
        self.sizes[size] += 1
        is_least, self.fewest = size < self.fewest, min(size, self.fewest)
        return is_least

    @property
    def is_due(self) -> bool:
        """Return whether enough has been observed since the last report."""
        return self.looked_at >= self._reported + REPORTED_EVERY

    def fact(self, step: int, module: str, location: str | None) -> NormBatches:
        """Return the observations so far of the batch norm with the fewest samples."""
        self._reported = self.looked_at
        return NormBatches(
            step=step,
            module=module,
            forwards=self.looked_at,
            single=self.single,
            few=self.few,
            samples=self.sizes.most_common(1)[0][0],
            location=location,
        )
