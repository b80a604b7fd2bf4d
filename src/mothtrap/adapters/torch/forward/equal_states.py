"""Detect targets that are computed from a copy of the same data as the prediction."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.core.facts.evaluations import EqualStates
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.identity import OwnRef

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

ENOUGH = 8
"""Number of steps in which both are equal. Chosen by hand: an agent may not move for a few steps.
"""
MAX_CALLS = 8
"""Maximum number of remembered calls before a backward pass."""
MAX_ELEMENTS = 1 << 20
"""Maximum number of compared elements of an input; images of a few environments are larger."""


class EqualStateObserver:
    """Compares the inputs of predictions and of targets until they differ once.

    Both must be separate tensors: a teacher that receives the batch of its student gets the same
    tensor. A class loss, or a loss with several values per row, belongs to a teacher, too: the
    value of an action is one number. Only tensors in main memory are compared, because a copy on a
    device may be made for each call.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._given: deque[tuple[OwnRef[torch.Tensor], int, bool]] = deque(maxlen=MAX_CALLS)
        self._equal_module: nn.Module | None = None
        self._compared = False
        self._seen: set[int] = set()
        self._equal = 0
        self.looks = True

    def backward_began(self, roots: Any) -> None:
        """Handle the start of a backward pass from tensors: later calls belong to the next loss."""
        module, self._equal_module = self._equal_module, None
        self._given.clear()
        self._compared = False
        if module is None:
            return
        if not all(map(_is_of_values, (roots,) if isinstance(roots, torch.Tensor) else roots)):
            self.looks = False
            return
        self._equal += 1
        if self._equal >= ENOUGH:
            self._report(module)

    def called(self, module: nn.Module, given: Sequence[Any], *, trains: bool) -> None:
        """Handle a model call with `given`; `trains`: its prediction is trained."""
        tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
        if self._compared or tensor is None or tensor.is_inference() or not is_state(tensor):
            return
        other = next(self._others(tensor, trains), None)
        if other is None:
            self._given.append((OwnRef(tensor), tensor._version, trains))
            return
        self._compared = True
        if other.data_ptr() == tensor.data_ptr() or not torch.equal(other, tensor):
            self.looks = False
            return
        self._seen.add(hash(arithmetic.digest(tensor.detach())))
        self._equal_module = module

    def _others(self, tensor: torch.Tensor, trains: bool) -> Iterator[torch.Tensor]:
        """Yield earlier data of the other kind of call, of the same shape."""
        for reference, version, trained in self._given:
            other = reference()
            if trained is trains or other is None or other._version != version:
                continue
            if other.shape == tensor.shape:
                yield other

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


def _is_of_values(root: Any) -> bool:
    """Return whether a loss may compare one value per row, such as the value of an action."""
    if not isinstance(root, torch.Tensor) or root.grad_fn is None:
        return True
    return all(
        term.operation == "elementwise"
        and (shape := term.prediction_shape) is not None
        and math.prod(shape) == (shape[0] if shape else 1)
        for term in graph.loss_terms(root.grad_fn)
    )
