"""Training on the same batch of a loader in every step, although the loader returns others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from mothtrap.core.facts.data import OneBatchUsed

STEPS = 32
"""This is reported after this many steps on one batch, and this many other loaded batches."""
Batch = TypeVar("Batch")


class UnusedBatches(Generic[Batch]):
    """Counts the steps that train on one batch, and the batches that are not used.

    Args:
        report: function that receives the fact, at 32 steps and each time their number has
            quadrupled.

    Attributes:
        latest: batch that was trained on last; None if unknown.
    """

    def __init__(self, report: Callable[[OneBatchUsed], None]) -> None:
        self._report = report
        self.latest: Batch | None = None
        self._loader = ""
        self._steps = self._given = 0
        self._began = self._step = -1
        self._next = STEPS

    def loaded(self, loader: str) -> None:
        """Count a loaded batch."""
        self._given += loader == self._loader

    def forget(self) -> None:
        """Reset, because steps were not observed or their batch is unknown."""
        self.latest, self._loader = None, ""

    def trained(self, batch: Batch, loader: str, step: int) -> None:
        """Count a training step on a batch.

        Args:
            batch: compared by identity.
            loader: loader of the batch.
            step: the step in progress.
        """
        if batch is not self.latest:
            self.latest, self._loader = batch, loader
            self._steps, self._given, self._next = 0, 0, STEPS
            self._began = step
        if step == self._step and self._steps:
            return
        self._step = step
        self._steps += 1
        if min(self._steps, self._given) >= self._next:
            self._next *= 4
            self._report(
                OneBatchUsed(
                    step=step,
                    loader=loader,
                    steps=self._steps,
                    unused=self._given,
                    first_step=self._began,
                )
            )
