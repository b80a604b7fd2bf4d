"""Datasets that loaders draw from: each is described once, with the names of its samples."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mothtrap.adapters.torch.data.sample_origins import Origins
from mothtrap.core.facts.samples import DataSeen, SamplesNamed
from mothtrap.core.packed import pack
from mothtrap.statistics.torch.fingerprint import fingerprint
from mothtrap.tracing.source.filenames import FileNames, file_names

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

DATA_SETS = 256
"""Maximum number of distinguished datasets; all further datasets count as the last."""
NAMED = 4_000_000
"""Maximum number of samples of a dataset whose names are reported."""
DIGESTED_BYTES = 64 << 20
"""Maximum size of a first batch, or of a whole dataset in memory, for computing a digest; chosen by
hand: 10 ms, once.
"""
MEMBERS = 16
"""Maximum length of a tuple or list that is taken for the columns of a dataset, not its rows."""

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)

Placed = Sequence[tuple[str, torch.Tensor]]


class _Known:
    """A dataset, and the samples whose names were reported."""

    def __init__(
        self, number: int, data: object, names: FileNames | None, length: int | None
    ) -> None:
        self.number, self.names, self._length = number, names, length
        self.told = bytearray(length if names is not None and length else 0)
        try:
            self._reference: weakref.ref[Any] | None = weakref.ref(data)
        except TypeError:
            self._reference = None

    def is_of(self, data: object) -> bool:
        """Return whether this is the given dataset, which was found at the same memory address.

        An object without weak references, such as a list, is identified by its length.
        """
        if self._reference is not None:
            return self._reference() is data
        return _length(data) == self._length


class DataBook:
    """Numbers datasets in order of first use."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: dict[int, _Known] = {}
        self._described = 0

    def numbers(self, sets: Sequence[object], loader: str, placed: Placed) -> list[int]:
        """Return the numbers of datasets, describing new ones.

        Args:
            sets: datasets of a batch.
            loader: loader of the batch.
            placed: the batch's tensors.
        """
        return [self._entry(data, loader, placed).number for data in sets]

    def name(self, origin: Origins, numbers: Sequence[int]) -> None:
        """Report the names of samples that were not reported before."""
        for place, data in enumerate(origin.sets):
            known = self._known.get(id(data))
            if known is None or known.names is None:
                continue
            own = origin.indices
            if origin.which:
                own = [i for i, w in zip(own, origin.which, strict=True) if w == place]
            new = [i for i in dict.fromkeys(own) if 0 <= i < len(known.told) and not known.told[i]]
            if new:
                for index in new:
                    known.told[index] = 1
                names = tuple(known.names.of(data, index) for index in new)
                self._job.recorder.notes.observe(
                    SamplesNamed(
                        step=self._job.grouper.step,
                        data=numbers[place],
                        indices=pack(new),
                        names=names,
                    )
                )

    def _entry(self, data: object, loader: str, placed: Placed) -> _Known:
        known = self._known.get(id(data))
        if known is not None and known.is_of(data):
            return known
        if self._described >= DATA_SETS:
            return next(reversed(self._known.values()))
        length = _length(data)
        names = file_names(data, length) if length is None or length <= NAMED else None
        known = self._known[id(data)] = _Known(self._described, data, names, length)
        self._described += 1
        self._job.recorder.notes.observe(
            DataSeen(
                step=self._job.grouper.step,
                data=known.number,
                loader=loader,
                kind=f"{type(data).__module__}.{type(data).__qualname__}",
                length=length,
                names_in=names.attribute if names is not None else "",
                root=names.root if names is not None else "",
                digest=_digest(placed),
                sorted_names=names.are_sorted(data) if names is not None else None,
                generators=_generators(data),
                content=_content(data),
            )
        )
        return known


def _generators(data: object) -> tuple[str, ...]:
    """Return the names of attributes that contain random generators."""
    try:
        held = vars(data)
    except TypeError:
        return ()
    return tuple(name for name, value in held.items() if isinstance(value, GENERATORS))


def _digest(placed: Placed) -> str:
    tensors = [tensor for _, tensor in placed]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    on_host = all(tensor.device.type == "cpu" for tensor in tensors)
    return f"{fingerprint(tensors):016x}" if tensors and on_host and size <= DIGESTED_BYTES else ""


def _content(data: object) -> str:
    """Return a digest of a whole dataset: its own digest, or a digest of its arrays."""
    try:
        held = vars(data)
    except TypeError:
        return ""
    own = held.get("_fingerprint")  # a dataset of the `datasets` library
    if isinstance(own, str):
        return own
    tensors: list[torch.Tensor] = []
    for value in held.values():
        columns = isinstance(value, tuple | list) and len(value) <= MEMBERS
        for each in value if columns else (value,):
            if type(each) is np.ndarray and each.dtype.kind in "biuf" and each.size:
                tensors.append(torch.from_numpy(each) if each.flags.writeable else _copied(each))
            elif type(each) is torch.Tensor:
                tensors.append(each)
    return _digest([("", tensor) for tensor in tensors])


def _copied(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor with a copy of a read-only array, about which torch would warn."""
    return torch.from_numpy(array.copy() if array.nbytes <= DIGESTED_BYTES else array[:0].copy())


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except Exception:  # the user's code may raise anything
        return None
