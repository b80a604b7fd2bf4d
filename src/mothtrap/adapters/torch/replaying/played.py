"""A step before the one that is meant: its optimizers do what they did in the run."""

from __future__ import annotations

from torch.optim import Optimizer

from mothtrap.adapters.torch.reproduce.guarding.undoing import Kept
from mothtrap.core.snapshots import RecordedStep


class PlayedStep:
    """The step that is played, and which of its optimizers are still to come."""

    def __init__(self) -> None:
        self._step: RecordedStep | None = None
        self._to_come: set[str] = set()
        self._undo: list[Kept] = []

    def begin(self, step: RecordedStep) -> None:
        """The first optimizer of a step is about to apply it."""
        self._step, self._to_come = step, set(step.optimizers)

    def awaits(self, name: str) -> bool:
        """Return whether an optimizer has yet to do its part of the step that began."""
        return name in self._to_come

    def applies(self, optimizer: Optimizer, name: str) -> None:
        """An optimizer is about to apply it: at the learning rates of the run.

        What the script does between epochs, it does not do when steps are played.
        """
        self._to_come.discard(name)
        if self._step is not None:
            rates = self._step.rates.get(name, ())
            for group, rate in zip(optimizer.param_groups, rates, strict=False):
                group["lr"] = rate
            self.keep(optimizer, self._step)

    def keep(self, optimizer: Optimizer, step: RecordedStep) -> None:
        """Have everything as it is now when the optimizer is done, if the run left the step out."""
        if step.skipped:
            self._undo.append(Kept(optimizer))

    def ended(self, name: str) -> None:
        """An optimizer is done, or a scaler has left it out."""
        self._to_come.discard(name)
        while self._undo:
            self._undo.pop().restore()
