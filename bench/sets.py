"""The sets of tensors that `bench/store.py` writes and reads; needs numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TensorSet:
    """`count` float32 tensors of `low` to `high` bytes at every step.

    `statistics`: a row of numbers about each tensor is stored; `low` is what it has in float32.
    """

    count: int
    low: int
    high: int
    steps: int
    statistics: bool = False
    slow_steps: int = 0
    """Number of steps for a peer that would take hours for all steps; 0 means all."""

    def tensors(self) -> list[np.ndarray]:
        """The tensors; the same at each call."""
        draw = np.random.default_rng(0)
        sizes = np.linspace(self.low, self.high, self.count).astype(int) // 4
        return [draw.standard_normal(size, np.float32) for size in sizes]

    def rows(self, steps: int) -> list[np.ndarray]:
        """The statistics of some steps, as they are handed over: float64, shape (count, 13)."""
        first = np.stack(self.tensors()).astype(np.float64)
        return [first + step for step in range(steps)]

    def steps_of(self, writer: str) -> int:
        """Return the number of steps that a writer makes."""
        return self.slow_steps if writer == "smdebug" and self.slow_steps else self.steps


SETS = {
    "small": TensorSet(count=300, low=8 << 10, high=64 << 10, steps=200),
    "large": TensorSet(count=20, low=16 << 20, high=16 << 20, steps=10),
    "statistics": TensorSet(count=1000, low=52, high=52, steps=2000, statistics=True, slow_steps=5),
}
