"""Counts by power of two in the step in progress, and their stored form."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from mothtrap.capture.statistics_rows import Reducer
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core.records import RawBlock
from mothtrap.statistics.distribution import EXPONENTS, SHAPES
from mothtrap.statistics.exponents import Counts

ArrayT = TypeVar("ArrayT")
_SHAPE, _DTYPE = SHAPES[EXPONENTS]


class StepExponents:
    """Sums the counts of each tensor over micro-batches and committed forward passes.

    They are stored as separate tensors, next to whole tensors, so that rows of statistics have no
    columns that few of them use.

    Args:
        tensors: tensors of the counts.
        clock: clock in seconds.
    """

    def __init__(self, tensors: Tensors, clock: Callable[[], float] = time.perf_counter) -> None:
        self._tensors, self._clock = tensors, clock
        self._own: dict[int, Counts] = {}
        self._forward: dict[int, Counts] = {}

    def count(
        self,
        reducer: Reducer[ArrayT],
        ids: Sequence[int],
        tensors: Sequence[ArrayT],
        *,
        waits: bool,
    ) -> float:
        """Count the values of some tensors; return the time that it took in seconds.

        Args:
            reducer: module for these tensors.
            ids: ids of the tensors.
            tensors: the tensors, which are read immediately and not kept.
            waits: they belong to a forward pass whose mode is not known yet.
        """
        began = self._clock()
        counts_T2B = reducer.count_exponents_of(tensors)
        _add(self._forward if waits else self._own, zip(ids, counts_T2B, strict=True))
        return self._clock() - began

    def begin_forward(self) -> None:
        """Discard the counts of a forward pass that never returned."""
        self._forward = {}

    def take_forward(self) -> Mapping[int, Counts]:
        """Return the counts of the forward pass that returned."""
        found, self._forward = self._forward, {}
        return found

    def keep(self, counts: Mapping[int, Counts]) -> None:
        """Add the counts of a forward pass to the step."""
        _add(self._own, counts.items())

    def take(self) -> list[RawBlock]:
        """Return the counts of the step."""
        found, self._own = self._own, {}
        return self.blocks(found)

    def blocks(self, found: Mapping[int, Counts]) -> list[RawBlock]:
        """Return counts in their stored form."""
        if not found:
            return []
        numbers = [self._tensors.derived(tensor_id, EXPONENTS) for tensor_id in found]
        counts_TB = np.stack([counts.reshape(-1) for counts in found.values()])
        return [
            RawBlock(
                tensor_R=np.array(numbers, np.uint32),
                dtypes=(_DTYPE,) * len(found),
                shapes=(_SHAPE,) * len(found),
                offset_R=np.arange(len(found) + 1, dtype=np.int64) * counts_TB[0].nbytes,
                bytes_N=counts_TB.astype("<i8").reshape(-1).view(np.uint8),
            )
        ]


def _add(target: dict[int, Counts], counts: Iterable[tuple[int, Counts]]) -> None:
    for tensor_id, count_2B in counts:
        before = target.get(tensor_id)
        target[tensor_id] = count_2B if before is None else before + count_2B
