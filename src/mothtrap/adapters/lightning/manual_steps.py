"""Optimizers of a manual optimization that never step."""

from __future__ import annotations

import weakref
from typing import Any

from mothtrap.core.facts.trainers import OptimizerNeverStepped
from mothtrap.tracing.source import frames

CALLS = 64
"""Number of training steps within which each optimizer should step; chosen by hand."""


class ManualSteps:
    """Detects optimizers that never step: the version counters of their parameters do not rise."""

    def __init__(self) -> None:
        self._module: weakref.ref[Any] | None = None
        self._calls = self._since = 0
        self._versions: dict[int, list[int]] = {}

    def called(self, trainer: Any, step: int) -> list[OptimizerNeverStepped]:
        """Count a training step; after `CALLS` of them, return the optimizers without a step.

        Args:
            trainer: trainer that called the training step of its module.
            step: step in progress.
        """
        module = trainer.lightning_module
        if module.automatic_optimization:
            return []
        if self._module is None or self._module() is not module:
            self._module, self._calls, self._since = weakref.ref(module), 0, step
            self._versions = {n: _versions(o) for n, o in enumerate(trainer.optimizers)}
        self._calls += 1
        if self._calls != CALLS:
            return []
        idle = [
            optimizer
            for number, optimizer in enumerate(trainer.optimizers)
            if self._versions.get(number) == _versions(optimizer)
        ]
        return [found for each in idle if (found := _fact(each, module, self._since)) is not None]


def _parameters(optimizer: Any) -> list[Any]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _versions(optimizer: Any) -> list[int]:
    return [each._version for each in _parameters(optimizer)]


def _fact(optimizer: Any, module: Any, step: int) -> OptimizerNeverStepped | None:
    """Describe an optimizer; None if none of its parameters has a gradient."""
    names = {id(each): name for name, each in module.named_parameters()}
    reached = [each for each in _parameters(optimizer) if each.grad is not None]
    if not reached:
        return None
    return OptimizerNeverStepped(
        step=step,
        optimizer=type(optimizer).__name__,
        model=type(module).__name__,
        calls=CALLS,
        parameter=names.get(id(reached[0]), "a parameter"),
        parameters=len(reached),
        location=frames.returned_at(type(module).training_step),
    )
