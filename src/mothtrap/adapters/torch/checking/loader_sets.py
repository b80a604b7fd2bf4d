"""The datasets behind the loaders of a script."""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.stored_samples import Stored, stored
from mothtrap.adapters.torch.job.randomness import RandomStates, restore
from mothtrap.checks.step import Array
from mothtrap.checks.subject import DataSet, Rows
from mothtrap.core.facts.checks import LayerRow
from mothtrap.tracing.source import frames

TARGETS = ("labels", "label", "targets", "target", "y")
"""Keys that may contain the target in samples that are mappings, most likely first."""


class LoadersSeen:
    """Records the loaders that a script creates and iterates over.

    Attributes:
        made: every loader, with the line that created it.
        iterated: loaders in the order of their first iteration.
    """

    def __init__(self) -> None:
        self.made: list[tuple[DataLoader[Any], str | None]] = []
        self.iterated: list[DataLoader[Any]] = []

    def install(self) -> None:
        """Detect loaders until the process ends; call this before loaders are intercepted."""
        make: Callable[..., None] = DataLoader.__init__
        iterate: Callable[..., Any] = DataLoader.__iter__

        @functools.wraps(make)
        def made(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            make(loader, *args, **kwargs)
            if not any(known is loader for known, _ in self.made):
                self.made.append((loader, frames.user_location()))

        @functools.wraps(iterate)
        def iterated(loader: DataLoader[Any]) -> Any:
            self.noticed(loader)
            return iterate(loader)

        setattr(DataLoader, "__init__", made)  # noqa: B010  # for the type checker
        setattr(DataLoader, "__iter__", iterated)  # noqa: B010

    def noticed(self, loader: DataLoader[Any]) -> None:
        """Record a loader that is iterated over."""
        if not any(known is loader for known in self.iterated):
            self.iterated.append(loader)

    def sources(self, recording: Recording) -> list[LayerRow]:
        """Return a row for the dataset of each training loader, without reading data."""
        fed = {number for kind, number, _ in recording.batches if kind == "batch"}
        training = [loader for n, loader in enumerate(self.iterated) if n in fed]
        return [
            LayerRow(
                part="data",
                name=place or "",
                kind=type(loader.dataset).__name__,
                output=(len(loader.dataset),) if hasattr(loader.dataset, "__len__") else (),
            )
            for loader, place in self.made
            if loader in training
        ]

    def sets(self, recording: Recording) -> tuple[DataSet, ...]:
        """Return the datasets of the loaders, training first.

        A loader that was created, but did not provide training batches, is for evaluation.
        """
        sites = {number: site for kind, number, site in recording.batches if kind == "batch"}
        training = [loader for n, loader in enumerate(self.iterated) if n in sites]
        found: list[DataSet] = []
        known: list[object] = []
        for loader, place in sorted(self.made, key=lambda one: one[0] not in training):
            part = isinstance(loader.sampler, SubsetRandomSampler)
            if any(loader.dataset is other for other in known) and not part:
                continue
            known.append(loader.dataset)
            number = self.iterated.index(loader) if loader in self.iterated else -1
            kept = [recording.batches[key] for key in recording.batches if key[1] == number]
            batches = [batch for several in kept for batch in several]
            role: Literal["train", "evaluation"] = "train" if loader in training else "evaluation"
            if isinstance(loader.dataset, IterableDataset):
                found.append(WatchedRows(loader.dataset, role, place, batches))
            elif hasattr(loader.dataset, "__len__"):
                found.append(IndexedSet.of(loader, role, place, batches))
        return tuple(_paired(found))


def given_set(
    loader: object, role: Literal["train", "evaluation"], batches: Sequence[Any] = ()
) -> DataSet | None:
    """Return the dataset of a loader, or of a list of batches; None for others.

    Streams are skipped, because reading them would take batches from the user.

    Args:
        loader: the argument of `mothtrap.check`.
        role: purpose of its batches.
        batches: batches that the loader has returned.
    """
    if isinstance(loader, DataLoader):
        stream = isinstance(loader.dataset, IterableDataset)
        return None if stream else IndexedSet.of(loader, role, None, batches)
    if isinstance(loader, list | tuple):
        return WatchedRows(loader, role, None, loader)
    return None


class IndexedSet:
    """A dataset whose samples are read by index; see `checks.subject.DataSet`."""

    def __init__(
        self,
        dataset: Any,
        role: Literal["train", "evaluation"],
        location: str | None,
        *,
        shuffled: bool = False,
        batches: Sequence[Any] = (),
    ) -> None:
        self.dataset = dataset
        base, places = dataset, None
        while isinstance(base, Subset):
            inner = [int(index) for index in base.indices]
            places = inner if places is None else [inner[place] for place in places]
            base = base.dataset
        self.base, self.shuffled = id(base), shuffled
        self.places: Sequence[int] | None = places
        self.classes: Sequence[str] = _classes(base)
        self.name, self.role, self.location = type(base).__name__, role, location
        self.size: int | None = len(dataset)
        self.random = self._is_random()
        self.batches = batches
        self.origin: DataSet | None = None

    @classmethod
    def of(
        cls,
        loader: DataLoader[Any],
        role: Literal["train", "evaluation"],
        location: str | None,
        batches: Sequence[Any] = (),
    ) -> IndexedSet:
        """Create the dataset for a loader and the batches it returned."""
        dataset: Any = loader.dataset
        if isinstance(loader.sampler, SubsetRandomSampler):
            dataset = Subset(dataset, list(loader.sampler.indices))
        shuffled = isinstance(loader.sampler, RandomSampler | WeightedRandomSampler)
        return cls(dataset, role, location, shuffled=shuffled, batches=batches)

    @property
    def handed(self) -> Sequence[Rows]:
        """Rows of each observed batch, as the loader returned them."""
        samples = map(_unbatched, self.batches)
        return [rows_of(one, tuple(range(len(one)))) for one in samples if one]

    def read(self, indices: Sequence[int], deadline: float) -> Rows:
        """Read samples by index until the deadline, then restore random states."""
        samples, read = [], []
        before = dict(RandomStates().read())
        try:
            for index in indices:
                if time.monotonic() > deadline:
                    break
                samples.append(self.dataset[index])
                read.append(index)
        finally:
            restore(before)
        return rows_of(samples, tuple(read))

    @property
    def stored(self) -> IndexedSet | None:
        """Samples as stored, before a transform changes them; None if unknown."""
        read = stored(self.dataset)
        if read is None:
            return None
        rows = IndexedSet(_StoredRows(read, len(self.dataset)), self.role, self.location)
        rows.name, rows.base, rows.places = self.name, self.base, self.places
        rows.shuffled = self.shuffled
        return rows

    def _is_random(self) -> bool:
        """Return whether reading the first sample twice gives different values."""
        if not self.size:
            return False
        before = dict(RandomStates().read())
        one, other = (rows_of([self.dataset[0]], (0,)) for _ in range(2))
        restore(before)
        pairs = zip(one.inputs, other.inputs, strict=False)
        return any(a.shape != b.shape or not np.array_equal(a, b) for a, b in pairs)


class _StoredRows:
    """Stored samples as a PyTorch dataset."""

    def __init__(self, read: Stored, size: int) -> None:
        self._read, self._size = read, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> tuple[Array]:
        return (self._read(index),)


class _Zipped:
    """Samples of two datasets with the same index."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self._inputs, self._targets = inputs, targets

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (*_flat(self._inputs[index]), *_flat(self._targets[index]))


def _flat(sample: Any) -> tuple[Any, ...]:
    return tuple(sample) if isinstance(sample, list | tuple) else (sample,)


def _paired(found: Sequence[DataSet]) -> Sequence[DataSet]:
    """Pair a dataset of inputs with the targets that another training loader returns."""
    trains = [one for one in found if isinstance(one, IndexedSet) and one.role == "train"]
    if len(trains) != 2 or any(one.random or not one.size for one in trains):
        return found
    inputs, targets = trains[::-1] if _has_only_targets(trains[0]) else trains
    alone = inputs.read([0], math.inf).targets is None and not _has_only_targets(inputs)
    alike = inputs.size == targets.size and len(inputs.batches) == len(targets.batches)
    if not alone or not alike or not _has_only_targets(targets):
        return found
    joined = [(*_flat(x), *_flat(y)) for x, y in zip(inputs.batches, targets.batches, strict=True)]
    both = IndexedSet(inputs.dataset, "train", inputs.location, batches=joined)
    both.shuffled = inputs.shuffled
    both.origin = IndexedSet(_Zipped(inputs.dataset, targets.dataset), "train", inputs.location)
    return [both if one is inputs else one for one in found]


def _has_only_targets(data: IndexedSet) -> bool:
    """Return whether each sample is one number, which may be the target of another sample."""
    row = data.read([0], math.inf)
    return row.targets is None and [array.size for array in row.inputs] == [1]


class WatchedRows:
    """A stream of which only the observed batches are known."""

    def __init__(
        self,
        dataset: Any,
        role: Literal["train", "evaluation"],
        location: str | None,
        batches: Iterable[Any],
    ) -> None:
        self.name, self.role, self.location = type(dataset).__name__, role, location
        self.size: int | None = None
        self.origin: DataSet | None = None
        self.stored: DataSet | None = None
        self.handed: Sequence[Rows] = ()
        self.random = self.shuffled = False
        self.base = id(dataset)
        self.places: Sequence[int] | None = None
        self.classes: Sequence[str] = _classes(dataset)
        self._samples = [sample for batch in batches for sample in _unbatched(batch)]

    def read(self, _indices: Sequence[int], _deadline: float, /) -> Rows:
        """Return the samples of the observed batches."""
        return rows_of(self._samples, tuple(range(len(self._samples))))


def _classes(dataset: object) -> tuple[str, ...]:
    """Return the class names of a dataset, as torchvision datasets provide them."""
    found = getattr(dataset, "classes", ())
    named = isinstance(found, list | tuple) and all(isinstance(one, str) for one in found)
    return tuple(found) if named else ()


def rows_of(samples: Sequence[Any], indices: tuple[int, ...]) -> Rows:
    """Combine samples; inputs and target are identified by position or key."""
    parts = [_split(sample) for sample in samples]
    if not parts:
        return Rows(indices=(), inputs=(), targets=None)
    count = min(len(inputs) for inputs, _ in parts)
    joined = tuple(_stacked([inputs[n] for inputs, _ in parts]) for n in range(count))
    targets = [target for _, target in parts if target is not None]
    whole = len(targets) == len(parts)
    return Rows(indices=indices, inputs=joined, targets=_stacked(targets) if whole else None)


def _split(sample: Any) -> tuple[list[Array], Array | None]:
    if isinstance(sample, Mapping):
        key = next((key for key in TARGETS if key in sample), None)
        inputs = [_array(value) for name, value in sample.items() if name != key]
        target = None if key is None else _array(sample[key])
    elif isinstance(sample, list | tuple) and len(sample) > 1:
        inputs, target = [_array(value) for value in sample[:-1]], _array(sample[-1])
    else:
        alone = sample[0] if isinstance(sample, list | tuple) and sample else sample
        inputs, target = [_array(alone)], None
    return [array for array in inputs if array is not None], target


def _array(value: Any) -> Array | None:
    if isinstance(value, torch.Tensor):
        return trees.array_of(value)
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return found if found.dtype.kind in "biufUS" else None


def _stacked(arrays: Sequence[Array]) -> Array:
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    whole = np.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        whole[place] = array
    return whole


def _unbatched(batch: Any) -> list[Any]:
    """Return the samples of a batch; empty if its tensors do not have one row per sample."""
    sizes = {len(tensor) if tensor.ndim else 0 for _, tensor in trees.tensors(batch)}
    size = sizes.pop() if len(sizes) == 1 else 0
    return [trees.mapped(batch, operator.itemgetter(row)) for row in range(size)]
