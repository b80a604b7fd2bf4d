"""Some samples of one loader, identified by the indices that its sampler drew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch

SAMPLES, VALUES = 32, 64
"""Number of samples of a loader that are compared, and of values of each. Chosen by hand: 16 KB."""
LEAST_SAMPLES = 8
"""Minimum number of samples that are compared in a pass; chosen by hand."""
PASSES = 8
"""Number of passes in which samples are compared."""


class Batch(NamedTuple):
    """A batch of the loader, with the samples that are compared.

    Attributes:
        rows: number of rows.
        followed: row and index of each of these samples.
        tensors: tensors of the batch, by their places.
        pass_number: number of the pass, from 1.
        step: the step in progress.
    """

    rows: int
    followed: list[tuple[int, int]]
    tensors: Sequence[tuple[str, torch.Tensor]]
    pass_number: int
    step: int


class SampledRows(ABC):
    """Compares a few samples of a loader, the first of the first pass, from pass to pass."""

    def __init__(self) -> None:
        self._followed: set[int] = set()
        self._began: dict[int, int] = {}
        self._done = False

    def loaded(
        self,
        drawn: object,
        tensors: Sequence[tuple[str, torch.Tensor]],
        pass_number: int,
        step: int,
    ) -> None:
        """Compare the samples of a batch with the previous pass.

        Args:
            drawn: indices that the sampler drew for the batch.
            tensors: tensors of the batch, by their places.
            pass_number: number of the pass, from 1.
            step: the step in progress.
        """
        if self._done or not isinstance(drawn, list) or not drawn:
            return
        if pass_number > PASSES or not {int}.issuperset(map(type, drawn)):
            self._done = True
            return
        self._began.setdefault(pass_number, step)
        if pass_number == 1:
            self._followed.update(drawn[: max(0, SAMPLES - len(self._followed))])
        followed = [(row, index) for row, index in enumerate(drawn) if index in self._followed]
        if followed:
            self._look(Batch(len(drawn), followed, tensors, pass_number, step))

    @abstractmethod
    def _look(self, batch: Batch) -> None:
        """Compare these samples of a batch with the previous pass."""
