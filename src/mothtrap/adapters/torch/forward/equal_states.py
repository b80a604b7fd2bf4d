"""Detect targets that are computed from a copy of the same data as the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.evaluations import EqualStates
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

ENOUGH = 8
"""Number of steps in which both are equal. Chosen by hand: an agent may not move for a few steps.
"""
MAX_ELEMENTS = 1 << 20
"""Maximum number of compared elements of an input; images of a few environments are larger."""


class EqualStateObserver:
    """Compares a model's inputs with those of its targets until they differ once.

    Both must be separate tensors: a teacher that receives the batch of its student gets the same
    tensor. Only tensors in main memory are compared, because a copy on a device may be made for
    each call.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._first: tuple[OwnRef[torch.Tensor], int, bool] | None = None
        self._compared = False
        self._seen: set[int] = set()
        self._equal = 0
        self.looks = True

    def backward_began(self) -> None:
        """Handle the start of a backward pass: later calls belong to the next loss."""
        self._first, self._compared = None, False

    def called(self, module: nn.Module, given: Sequence[Any], *, trains: bool) -> None:
        """Handle a model call with `given`; `trains`: its prediction is trained."""
        tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
        if self._compared or tensor is None or tensor.is_inference() or not is_state(tensor):
            return
        if self._first is None:
            self._first = OwnRef(tensor), tensor._version, trains
            return
        reference, version, trained = self._first
        if trained is trains:
            return
        self._compared, other = True, reference()
        if other is None or other._version != version or other.shape != tensor.shape:
            return
        if other.data_ptr() == tensor.data_ptr() or not torch.equal(other, tensor):
            self.looks = False
            return
        self._seen.add(hash(arithmetic.digest(tensor.detach())))
        self._equal += 1
        if self._equal >= ENOUGH:
            self._report(module)

    def _report(self, module: nn.Module) -> None:
        self.looks = False
        if len(self._seen) <= ENOUGH // 2:
            return
        book, step = self._job.book, self._job.grouper.step
        self._job.recorder.notes.observe(
            EqualStates(step=step, steps=self._equal, location=book.location(module))
        )


def is_state(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is in main memory and of a size that is compared."""
    return (
        is_plain(tensor)
        and tensor.is_cpu
        and tensor.is_floating_point()
        and 2 <= tensor.numel() <= MAX_ELEMENTS
    )
