"""Detect two training forwards of a step with equal data that should be two different views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.forward.equal_states import is_state
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

ENOUGH = 8
"""Number of steps in which both are equal, as for `EqualStates`."""
MAX_MISSES = 16
"""Number of backward passes without equal views after which the search ends. Chosen by hand."""


class EqualViewObserver:
    """Compares a model's inputs in two forward passes before a backward, until they differ.

    Both must be separate tensors: a model with dropout may receive the same tensor twice. They may
    also be the halves of one batch in which the views were joined. A model that also receives its
    own state, such as a recurrent cell, receives the same data again on purpose.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._first: tuple[OwnRef[nn.Module], OwnRef[torch.Tensor], int] | None = None
        self._compared = False
        self._seen: set[int] = set()
        self._misses = 0
        self.looks = True

    def backward_began(self) -> None:
        """Handle the start of a backward pass: later calls belong to the next loss."""
        if self._first is not None and not self._compared:
            self._misses += 1
            self.looks = self.looks and self._misses < MAX_MISSES
        self._first, self._compared = None, False

    def called(self, module: nn.Module, given: Sequence[Any]) -> None:
        """Handle a model call with `given` and a graph."""
        tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
        if self._compared or tensor is None or not is_state(tensor):
            return
        if any(_is_computed(one) for one in given[1:]):
            self.looks = False
            return
        if self._first is None:
            if _halves_are_equal(tensor):
                self._compared = True
                self._equal(module, tensor)
            self._first = OwnRef(module), OwnRef(tensor), tensor._version
            return
        model, reference, version = self._first
        other = reference()
        if model() is not module or other is None or other._version != version:
            return
        self._compared = True
        apart = other.data_ptr() != tensor.data_ptr() and other.shape == tensor.shape
        if apart and torch.equal(other, tensor):
            self._equal(module, tensor)
        else:
            self.looks = False

    def _equal(self, module: nn.Module, tensor: torch.Tensor) -> None:
        self._seen.add(hash(arithmetic.digest(tensor.detach())))
        if len(self._seen) < ENOUGH:
            return
        self.looks = False
        book, step = self._job.book, self._job.grouper.step
        self._job.recorder.notes.observe(
            EqualViews(
                step=step,
                steps=len(self._seen),
                dropout=any(
                    isinstance(part, _DROPOUTS) and part.p > 0 for part in module.modules()
                ),
                location=book.location(module),
            )
        )


_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def _is_computed(given: object) -> bool:
    """Return whether an argument, or a part of it, comes from a model under training."""
    parts = given if isinstance(given, tuple | list) else (given,)
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in parts)


def _halves_are_equal(tensor: torch.Tensor) -> bool:
    rows = len(tensor)
    return rows >= 4 and rows % 2 == 0 and torch.equal(*tensor.chunk(2))
