"""The samples of a loader and their order, as far as they are known without reading from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from mothtrap.statistics.torch.in_place import as_array

Indices = npt.NDArray[np.int64]

MAX_INDICES = 2_000_000
"""Maximum number of samples whose indices are compared; chosen by hand: 0.2 s, once."""
_SUBSETS = 8
"""Maximum depth of nested subsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Description of a loader; fields as in `LoaderBegan`."""

    sampler: str
    workers: int
    samples: int | None
    batch_size: int | None
    batches: int | None
    in_order: bool
    weights: int | None


def plan_of(loader: DataLoader[Any]) -> Plan:
    """Describe a loader, calling no user code except the length of the data."""
    kind = _kind(loader)
    known = kind not in ("iterable", "own")
    batches = loader.batch_sampler
    return Plan(
        sampler=kind,
        workers=loader.num_workers,
        samples=_length(loader.dataset) if known else None,
        batch_size=batches.batch_size if type(batches) is BatchSampler else None,
        batches=_length(batches) if known and type(batches) is BatchSampler else None,
        in_order=not loader.num_workers or bool(getattr(loader, "in_order", True)),
        weights=_weights(loader) if known else None,
    )


def _kind(loader: DataLoader[Any]) -> str:
    if isinstance(loader.dataset, IterableDataset):
        return "iterable"
    batches = loader.batch_sampler
    if batches is not None and type(batches) is not BatchSampler:
        return "own"
    sampler: Any = loader.sampler if batches is None else batches.sampler
    exact = type(sampler)
    if exact is SequentialSampler:
        return "sequential"
    if exact in (RandomSampler, WeightedRandomSampler) or _is_seeded(exact):
        return "with_replacement" if sampler.replacement else "shuffled"
    if exact is SubsetRandomSampler:
        return "shuffled"
    if exact is DistributedSampler:
        return "shuffled" if sampler.shuffle else "sequential"
    return "own"


def _weights(loader: DataLoader[Any]) -> int | None:
    """Return the number of weights of a weighted sampler."""
    sampler = loader.sampler
    return len(sampler.weights) if type(sampler) is WeightedRandomSampler else None


def _is_seeded(exact: type[Any]) -> bool:
    """Return whether a class is the random sampler of Accelerate, which is seeded in each pass."""
    name = (exact.__module__.partition(".")[0], exact.__name__)
    return name == ("accelerate", "SeedableRandomSampler")


def data_of(loader: DataLoader[Any]) -> tuple[object, Indices] | None:
    """Return a loader's dataset and its distinct, sorted sample indices.

    Nested subsets are followed to the underlying dataset. None if unknown.
    """
    if _kind(loader) in ("iterable", "own"):
        return None
    data: Any = loader.dataset
    length = _length(data)
    if length is None or not 0 < length <= MAX_INDICES:
        return None
    sampler: Any = loader.sampler
    chosen = sampler.indices if type(sampler) is SubsetRandomSampler else range(length)
    index_N = _indices(chosen)
    for _ in range(_SUBSETS):
        if type(data) is not Subset:
            break
        index_N = _indices(data.indices)[index_N]
        data = data.dataset
    return data, np.unique(index_N)


def samples_of(loader: DataLoader[Any], drawn: object) -> tuple[int, ...]:
    """Return the indices drawn by the sampler for a batch.

    Empty if workers may return batches in a different order than they were drawn.
    """
    if loader.num_workers and not getattr(loader, "in_order", True):
        return ()
    if not isinstance(drawn, list | tuple) or not all(type(i) is int for i in drawn):
        return ()
    data: Any = loader.dataset
    indices = [int(i) for i in drawn]
    for _ in range(_SUBSETS):
        if type(data) is not Subset:
            break
        indices = [int(data.indices[i]) for i in indices]
        data = data.dataset
    return tuple(indices)


def _indices(given: Any) -> Indices:
    values = as_array(given.cpu()) if isinstance(given, torch.Tensor) else given
    return np.array(values, np.int64)


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None
