"""Optimizers that other threads step: their parameters and gradients are left alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.graph import leaves
from mothtrap.adapters.torch.job.training_thread import TrainingThread
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.tracing.identity import ByIdentity


class SteppedOptimizer(Protocol):
    """One optimizer, see `optimizers.Known`."""

    thread: int
    held: set[int]

    def forget_gradients(self) -> None:
        """Forget what its last step left behind."""


KnownT = TypeVar("KnownT", bound=SteppedOptimizer)


class OtherThreads(Generic[KnownT]):
    """Records which thread steps which optimizer, and whether threads share parameters.

    Args:
        known: all optimizers.
        thread: the observed thread.

    Attributes:
        share: called once, when another thread trains parameters of the observed thread.
        shared: another thread trains them, so gradients no longer show the work of one thread.
    """

    def __init__(self, known: ByIdentity[Optimizer, KnownT], thread: TrainingThread) -> None:
        self._known, self._thread = known, thread
        self.share: Callable[[], None] = lambda: None
        self._training: set[int] = set()
        self._looked: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.shared = False

    def own(self) -> list[tuple[KnownT, Optimizer]]:
        """Return the optimizers that no other thread steps."""
        if not self._thread.several:
            return self._known.turned()
        mine = (0, self._thread.watched)
        return [(known, own) for known, own in self._known.turned() if known.thread in mine]

    def unshared(self) -> list[tuple[KnownT, Optimizer]]:
        """Return the optimizers whose gradients no other thread changes."""
        if not self._thread.several:
            return self._known.turned()
        return [] if self.shared else self.own()

    def adopt(self, known: KnownT) -> None:
        """Register an optimizer before the observed thread steps it for the first time."""
        if known.thread in self._training:
            self._tell()
        known.thread = self._thread.watched

    def moved(self) -> None:
        """Forget earlier gradients, because another thread is observed from now on."""
        self._training.discard(self._thread.watched)
        self._looked = weakref.WeakSet()
        for known, _ in self._known.turned():
            known.forget_gradients()

    def left_out(self, optimizer: Optimizer | None, roots: Any) -> None:
        """Note that an unobserved thread is about to step an optimizer or begins a backward."""
        here = get_ident()
        if optimizer is None and here not in self._training:
            self._reaches(here, leaves(roots))
        elif optimizer is not None and optimizer not in self._looked:
            self._looked.add(optimizer)
            self._reaches(here, parameters(optimizer))
        self._training.add(here)

    def _reaches(self, thread: int, trained: Iterable[torch.Tensor]) -> None:
        """Leave optimizers to the thread that trains their parameters."""
        ids = {id(parameter) for parameter in trained}
        for known, _ in self._known.turned():
            if not known.held.isdisjoint(ids):
                if known.thread == self._thread.watched:
                    self._tell()
                else:
                    known.thread = thread

    def _tell(self) -> None:
        if not self.shared:
            self.shared = True
            for known, _ in self._known.turned():
                known.forget_gradients()
            self.share()
