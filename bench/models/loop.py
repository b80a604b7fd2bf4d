"""The training step that all models of the benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader


class Step(Protocol):
    """Runs one step and returns the loss, a tensor of one element.

    Args of a call:
        before_update: is given the loss between the backward and the optimizer's step, where
            tools that have no hook there want to be called.
    """

    def __call__(
        self, before_update: Callable[[torch.Tensor], object] | None = None
    ) -> torch.Tensor: ...


def step_of(optimizer: Optimizer, loss_of: Callable[[], torch.Tensor]) -> Step:
    """Return the step of a plain loop."""

    def step(before_update: Callable[[torch.Tensor], object] | None = None) -> torch.Tensor:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        if before_update is not None:
            before_update(loss)
        optimizer.step()
        return loss

    return step


def without_end(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the batches of a loader, pass after pass."""
    while True:
        yield from loader
