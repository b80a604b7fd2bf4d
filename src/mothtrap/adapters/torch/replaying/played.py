"""Replay of a step before the requested one: its optimizers step as in the run."""

from __future__ import annotations

from torch.optim import Optimizer

from mothtrap.adapters.torch.guard.undoing import Kept
from mothtrap.core.snapshots import RecordedStep


class PlayedStep:
    """The replayed step, and its optimizers that have not stepped yet."""

    def __init__(self) -> None:
        self._step: RecordedStep | None = None
        self._to_come: set[str] = set()
        self._undo: list[Kept] = []

    def begin(self, step: RecordedStep) -> None:
        """Handle the first optimizer of a step that is about to apply it."""
        self._step, self._to_come = step, set(step.optimizers)

    def awaits(self, name: str) -> bool:
        """Return whether an optimizer has not completed its part of the step."""
        return name in self._to_come

    def applies(self, optimizer: Optimizer, name: str) -> None:
        """Set the recorded learning rates of an optimizer that is about to step.

        The script's code between epochs does not run during a replay.
        """
        self._to_come.discard(name)
        if self._step is not None:
            rates = self._step.rates.get(name, ())
            for group, rate in zip(optimizer.param_groups, rates, strict=False):
                group["lr"] = rate
            self.keep(optimizer, self._step)

    def keep(self, optimizer: Optimizer, step: RecordedStep) -> None:
        """Restore the current state after the optimizer step, if the run skipped the step."""
        if step.skipped:
            self._undo.append(Kept(optimizer))

    def ended(self, name: str) -> None:
        """Handle the end of an optimizer step, or its omission by a scaler."""
        self._to_come.discard(name)
        while self._undo:
            self._undo.pop().restore()
