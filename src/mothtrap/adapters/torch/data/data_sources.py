"""Observed loaders, and the last batch of each."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.data.redrawn_rows import RedrawnRows
from mothtrap.adapters.torch.data.rescaled_rows import RescaledRows
from mothtrap.adapters.torch.data.samplers import Plan, samples_of
from mothtrap.tracing.jobs.identity import OwnRef


@dataclass(slots=True, eq=False)
class Source:
    """A loader; `done`: it was exhausted. `models` received its batches.

    `order`: the epoch and seed of its `DistributedSampler` in the pass that began at `order_step`,
    and in the `order_passes` - 1 passes before.
    """

    label: str
    plan: Plan
    location: str | None
    loader: weakref.ref[DataLoader[Any]]
    passes: int = 0
    checked: int = 0
    told: int = 0
    trained: bool = False
    evaluated: bool = False
    done: bool = False
    rescaled: RescaledRows | None = None
    redrawn: RedrawnRows | None = None
    order: tuple[int, int] | None = None
    order_step: int = -1
    order_passes: int = 0
    models: weakref.WeakSet[nn.Module] = field(default_factory=weakref.WeakSet)


@dataclass(slots=True, eq=False)
class Batch:
    """The latest loaded batch: its tensors by path, and the indices drawn by its sampler.

    `sizes` are rows and elements of the tensors. `trains`: whether it was passed to a model in
    training, as far as is known; None before it is first used. `told`: its non-numeric contents
    were reported. `has_digests`: digests of its tensors were computed.
    """

    source: Source
    tensors: list[tuple[str, OwnRef[torch.Tensor]]]
    sizes: set[tuple[int, int]]
    drawn: object
    trains: bool | None = None
    told: bool = False
    has_digests: bool = False

    def samples(self, rows: tuple[int, ...], size: int) -> tuple[int, ...]:
        """Return the dataset indices of some rows of a tensor with `size` rows."""
        loader = self.source.loader()
        samples = samples_of(loader, self.drawn) if loader is not None else ()
        return tuple(samples[row] for row in rows) if len(samples) == size else ()
