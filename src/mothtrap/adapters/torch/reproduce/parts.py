"""Protocols between the services of the adapter that act on steps."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Protocol

from torch.optim import Optimizer

from mothtrap.adapters.torch.job.job import Job

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.losses.backwards import LossObserver
    from mothtrap.adapters.torch.optimization.optimizers import Known, OptimizerObserver
    from mothtrap.adapters.torch.recording.recording import Recording
    from mothtrap.adapters.torch.recording.tracked_objects import TrackedObjects


class Guarding(Protocol):
    """Judges steps; `unsound_step` is the latest that was found unsound."""

    @property
    def unsound_step(self) -> int:
        """Return the number of that step."""


class Snapshotting(Protocol):
    """Takes snapshots of steps that are not applied."""

    def joined(self, known: Known, optimizer: Optimizer) -> None:
        """The gradients of an optimizer are final."""

    def fulfil(self) -> None:
        """Take what was ordered."""

    def take(self, reason: str) -> None:
        """Take one at the onset of an unsound step."""


class Parts(Job):
    """The job, with the observers that its parts know.

    Attributes:
        optimizers: all that were seen.
        known: other objects whose state is kept.
        forwards: what was called.
        recording: what was fed.
        losses: the values that backwards began with.
        guard: judges steps.
        snapshots: takes them.
    """

    optimizers: OptimizerObserver
    known: TrackedObjects
    forwards: ForwardObserver
    recording: Recording
    losses: LossObserver
    guard: Guarding
    snapshots: Snapshotting

    @property
    @abc.abstractmethod
    def in_backward(self) -> bool:
        """Return whether a backward is running."""

    @abc.abstractmethod
    def step_cancelled(self, optimizer: Optimizer) -> None:
        """`optimizer.step` was left before it was done, or was undone."""
