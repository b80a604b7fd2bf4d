"""Loaders as they are followed, and what came last from one."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.data.rescaled_rows import RescaledRows
from mothtrap.adapters.torch.data.samplers import Plan, samples_of
from mothtrap.tracing.identity import OwnRef


@dataclass(slots=True, eq=False)
class Source:
    """One loader; `done`: it was gone through to its end. `models` were given its batches."""

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
    models: weakref.WeakSet[nn.Module] = field(default_factory=weakref.WeakSet)


@dataclass(slots=True, eq=False)
class Batch:
    """Batch that was loaded last: its tensors by path, and the indices that its sampler drew.

    `sizes` are rows and elements of the tensors. `trains`: whether a model that was
    given it is trained, so far as is known; None before the first. `told`: what is no
    number in it was said. `has_digests`: those of its tensors were taken.
    """

    source: Source
    tensors: list[tuple[str, OwnRef[torch.Tensor]]]
    sizes: set[tuple[int, int]]
    drawn: object
    trains: bool | None = None
    told: bool = False
    has_digests: bool = False

    def samples(self, rows: tuple[int, ...], size: int) -> tuple[int, ...]:
        """Indices into the data of some rows of a tensor that has `size` of them."""
        loader = self.source.loader()
        samples = samples_of(loader, self.drawn) if loader is not None else ()
        return tuple(samples[row] for row in rows) if len(samples) == size else ()
