"""Detect files with all weights of a model when they are written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.core.facts.record import CheckpointSaved
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_DEPTH = 6
MAX_OBJECTS = 100_000
"""Maximum number of inspected objects in a file; chosen by hand, far above any checkpoint."""
MAX_PATH = 500


class CheckpointObserver:
    """Reports saved files with at least as many values as a trained model.

    Args:
        job: observed job.
        optimizers: its optimizers.
    """

    def __init__(self, job: Job, optimizers: OptimizerObserver) -> None:
        self._job, self._optimizers = job, optimizers

    @uncompiled
    def saved(self, value: Any, target: Any) -> None:
        """Handle a written file.

        Args:
            value: written value.
            target: a path, or an open file.
        """
        weights = [
            sum(parameter.numel() for parameter in whole.parameters())
            for root in self._job.book.roots
            if (whole := root.module()) is not None and self._optimizers.owns_root(root)
        ]
        if not weights:
            return
        elements = elements_of(value)
        if elements < min(weights):
            return
        path = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
        self._job.recorder.notes.observe(
            CheckpointSaved(
                step=self._job.grouper.steps_applied,
                path=str(path)[:MAX_PATH],
                elements=elements,
                location=frames.user_location(),
            )
        )


def elements_of(value: Any) -> int:
    """Return the number of values in the tensors of nested containers, each counted once."""
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(value, 0)]
    total = 0
    while waiting and len(seen) < MAX_OBJECTS:
        each, depth = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            total += each.numel()
        elif isinstance(each, nn.Module):
            total += sum(tensor.numel() for tensor in each.parameters())
        elif isinstance(each, Mapping) and depth < MAX_DEPTH:
            waiting += [(part, depth + 1) for part in each.values()]
        elif isinstance(each, list | tuple) and depth < MAX_DEPTH:
            waiting += [(part, depth + 1) for part in each]
    return total
