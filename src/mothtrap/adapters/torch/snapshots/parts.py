"""Protocols of the adapter's services that act on steps."""

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
    """Evaluates steps; `unsound_step` is the latest bad step."""

    @property
    def unsound_step(self) -> int:
        """Return the number of that step."""


class Snapshotting(Protocol):
    """Takes snapshots of steps that are not applied."""

    def joined(self, known: Known, optimizer: Optimizer) -> None:
        """Handle an optimizer's final gradients."""

    def fulfil(self) -> None:
        """Take the requested snapshots."""

    def take(self, reason: str) -> None:
        """Take a snapshot at the onset of a bad step."""


class Parts(Job):
    """View of the job for observers of its parts.

    Attributes:
        optimizers: all observed optimizers.
        known: other objects whose state is kept.
        forwards: forward passes.
        recording: recorded inputs.
        losses: the starting values of backward passes.
        guard: evaluates steps.
        snapshots: takes snapshots.
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
        """Return whether a backward pass is running."""

    @abc.abstractmethod
    def step_cancelled(self, optimizer: Optimizer) -> None:
        """Handle an `optimizer.step` that was interrupted or undone."""
