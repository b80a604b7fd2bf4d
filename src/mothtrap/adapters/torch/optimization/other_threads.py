"""Optimizers that other threads step; their parameters and gradients are not read."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.graph import leaves
from mothtrap.adapters.torch.job.training_thread import TrainingThread, waits_for_threads
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.tracing.jobs.identity import ByIdentity


class SteppedOptimizer(Protocol):
    """One optimizer, see `optimizers.Known`."""

    thread: int
    held: set[int]

    def forget_gradients(self) -> None:
        """Discard the gradient data of its last step."""


KnownT = TypeVar("KnownT", bound=SteppedOptimizer)


class OtherThreads(Generic[KnownT]):
    """Records which thread steps which optimizer, and whether threads share parameters.

    Args:
        known: all optimizers.
        thread: the observed thread.

    Attributes:
        share: called once, when two threads train the same parameters at the same time.
        shared: another thread trains parameters of the observed thread, so gradients mix the work
            of several threads, and must not be read. It is reset if the other thread has stopped
            when the observed one trains again: they took turns.
    """

    def __init__(self, known: ByIdentity[Optimizer, KnownT], thread: TrainingThread) -> None:
        self._known, self._thread = known, thread
        self.share: Callable[[], None] = lambda: None
        self._training: dict[int, threading.Thread | None] = {}
        self._looked: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._reaching = 0
        self._is_told = self.shared = False

    def own(self) -> list[tuple[KnownT, Optimizer]]:
        """Return the optimizers that no other thread steps."""
        if not self._thread.several:
            return self._known.turned()
        mine = (0, self._thread.watched)
        return [(known, own) for known, own in self._known.turned() if known.thread in mine]

    def unshared(self) -> list[tuple[KnownT, Optimizer]]:
        """Return the optimizers whose gradients no other thread changes.

        Called when the observed thread trains.
        """
        if not self._thread.several:
            return self._known.turned()
        self._trains()
        return [] if self.shared else self.own()

    def adopt(self, known: KnownT) -> None:
        """Record that the observed thread is about to step an optimizer."""
        self._trains()
        if known.thread in self._training and self._still_trains(known.thread):
            self._report()
        known.thread = self._thread.watched

    def _trains(self) -> None:
        """Check whether a thread that shares parameters still trains while this thread trains."""
        if self._reaching and not self._is_told:
            other, self._reaching = self._reaching, 0
            if self._still_trains(other):
                self._report()
            else:
                self.shared = False
                self._forget(other)

    def moved(self) -> None:
        """Discard earlier gradients, because another thread is observed now."""
        self._reaching, self.shared = 0, self._is_told
        self._forget(self._thread.watched)

    def left_out(self, optimizer: Optimizer | None, roots: Any) -> None:
        """Record that an unobserved thread is about to step an optimizer or run a backward pass."""
        here = get_ident()
        if optimizer is None and here not in self._training:
            self._reaches(here, leaves(roots))
        elif optimizer is not None and optimizer not in self._looked:
            self._looked.add(optimizer)
            self._reaches(here, parameters(optimizer))
        if here not in self._training:
            every = threading.enumerate()
            self._training[here] = next((t for t in every if t.ident == here), None)

    def _reaches(self, thread: int, trained: Iterable[torch.Tensor]) -> None:
        """Exclude optimizers whose parameters another thread trains."""
        ids = {id(parameter) for parameter in trained}
        for known, _ in self._known.turned():
            if not known.held.isdisjoint(ids):
                if known.thread == self._thread.watched:
                    self._reaching, self.shared = thread, True
                else:
                    known.thread = thread

    def _still_trains(self, thread: int) -> bool:
        """Return whether a thread exists and does not wait for its next task."""
        known = self._training.get(thread)
        return (known is None or known.is_alive()) and not waits_for_threads(thread)

    def _forget(self, thread: int) -> None:
        """Discard the data about a thread's training, and all earlier gradients."""
        self._training.pop(thread, None)
        self._looked = weakref.WeakSet()
        for known, _ in self._known.turned():
            known.forget_gradients()

    def _report(self) -> None:
        if not self._is_told:
            self._is_told = self.shared = True
            for known, _ in self._known.turned():
                known.forget_gradients()
            self.share()
