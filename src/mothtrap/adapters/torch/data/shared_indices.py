"""Samples that one loader draws for training and another for evaluation."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch.utils.data import DistributedSampler

from mothtrap.adapters.torch.data.samplers import Indices, data_of
from mothtrap.core.facts.data import IndicesShared, SplitDrawn
from mothtrap.core.packed import pack

if TYPE_CHECKING:
    from mothtrap.adapters.torch.data.data_sources import Source
    from mothtrap.adapters.torch.job.job import Job

COMPARED = 4
"""Number of latest training loaders, and evaluation loaders, whose samples are compared."""
MAX_STORED = 100_000
"""Maximum number of stored indices for a later attempt. Chosen by hand: 0.5 MB."""


@dataclass(slots=True, eq=False)
class _Draws:
    """Samples that a loader draws, and the dataset that contains them."""

    source: Source
    data: Callable[[], object]
    index_N: Indices


class SharedIndices:
    """Compares training and evaluation loaders once their purpose is known."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trained: deque[_Draws] = deque(maxlen=COMPARED)
        self._held_out: deque[_Draws] = deque(maxlen=COMPARED)
        self._reported: set[tuple[int, int, int]] = set()

    def compare(self, source: Source) -> None:
        """Compare training and evaluation data once both are known."""
        loader = source.loader()
        drawn = data_of(loader) if loader is not None else None
        if drawn is None or source.trained == source.evaluated:
            return
        data, own_N = drawn
        if not source.trained:
            self._held_out.append(_Draws(source, _reference(data), own_N))
        else:
            self._trained.append(_Draws(source, _reference(data), own_N))
        for train in self._trained:
            for held_out in self._held_out:
                apart = not train.source.evaluated and not held_out.source.trained
                is_new = source in (train.source, held_out.source)
                apart = apart and not self._are_of_siblings(train.source, held_out.source)
                if apart and is_new and train.data() is held_out.data() is data:
                    self._report(train, held_out)

    def _are_of_siblings(self, train: Source, held_out: Source) -> bool:
        """Return whether all evaluated models were trained on other data, as for folds."""
        others = [one.source for one in self._trained if one.source is not train]
        return bool(held_out.models) and all(
            model not in train.models and any(model in other.models for other in others)
            for model in held_out.models
        )

    def _report(self, train: _Draws, held_out: _Draws) -> None:
        shared = len(np.intersect1d(train.index_N, held_out.index_N, assume_unique=True))
        numbers = len(train.index_N), len(held_out.index_N), shared
        if numbers in self._reported:  # loaders that are created again in each epoch
            return
        self._reported.add(numbers)
        self._job.recorder.notes.observe(
            IndicesShared(
                step=self._job.grouper.step,
                train_loader=train.source.label,
                eval_loader=held_out.source.label,
                train_samples=len(train.index_N),
                eval_samples=len(held_out.index_N),
                shared=shared,
                location=held_out.source.location,
            )
        )
        if max(numbers) <= MAX_STORED:
            self._job.recorder.notes.observe(_split(train, held_out, self._job.grouper.step))


def _split(train: _Draws, held_out: _Draws, step: int) -> SplitDrawn:
    """Return the fact that a later attempt of the job is compared with."""
    data = train.data()
    return SplitDrawn(
        step=step,
        data=type(data).__qualname__,
        size=len(data) if isinstance(data, Sized) else 0,
        trained=pack(train.index_N.tolist()),
        evaluated=pack(held_out.index_N.tolist()),
        eval_loader=held_out.source.label,
        replicas=_replicas(train.source),
        location=held_out.source.location,
    )


def _replicas(source: Source) -> int:
    """Return the number of ranks among which a loader's sampler divides the samples."""
    sampler = getattr(source.loader(), "sampler", None)
    return sampler.num_replicas if type(sampler) is DistributedSampler else 1


def _reference(data: object) -> Callable[[], object]:
    """Create a weak reference; an object without weak references equals no other."""
    try:
        return weakref.ref(data)
    except TypeError:
        return object
