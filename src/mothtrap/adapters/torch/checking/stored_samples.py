"""Samples of a dataset as they are stored, before its `__getitem__` changes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from mothtrap.adapters.torch.checking import trees
from mothtrap.checks.step import Array

MAX_DEPTH = 5
"""Maximum depth of nested datasets that are inspected; chosen by hand."""

Stored = Callable[[int], Array]
"""Function that returns a sample by its index."""


def stored(dataset: Any, depth: int = MAX_DEPTH) -> Stored | None:
    """Return a function that reads the stored sample of an index; None if there is none.

    Stored samples are rows of an array in an attribute of the dataset (such as `data` in
    torchvision), the contents of files in a list (such as `samples`), or the samples of a wrapped
    dataset. Their number must equal the length of the dataset.
    """
    if isinstance(dataset, Subset):
        inner = stored(dataset.dataset, depth - 1) if depth else None
        return None if inner is None else _picked(inner, dataset.indices)
    size = len(dataset)
    held = [value for value in _attributes(dataset) if _length(value) == size]
    arrays = [one for one in held if _is_table(one)]
    if arrays:
        return _rows_of(max(arrays, key=lambda one: one[0].size if size else 0))
    lists = [one for one in held if isinstance(one, list | tuple) and one]
    files = [one for one in lists if _file(one[0]) is not None]
    if files:
        return _contents_of(files[0])
    wrapped = [one for one in held if hasattr(one, "__getitem__") and _is_data_set(one)]
    return stored(wrapped[0], depth - 1) if len(wrapped) == 1 and depth else None


def _attributes(dataset: Any) -> list[Any]:
    values = list(vars(dataset).values()) if hasattr(dataset, "__dict__") else []
    tuples = [one for one in values if isinstance(one, tuple)]
    return values + [part for one in tuples for part in one if isinstance(part, torch.Tensor)]


def _length(value: Any) -> int:
    try:
        return len(value)
    except (TypeError, NotImplementedError, RuntimeError):
        return -1


def _is_table(value: Any) -> bool:
    """Return whether a value is an array of at least two numbers per row."""
    if not isinstance(value, torch.Tensor | np.ndarray) or value.ndim < 2:
        return False
    return isinstance(value, torch.Tensor) or value.dtype.kind in "biuf"


def _is_data_set(value: Any) -> bool:
    return isinstance(value, torch.utils.data.Dataset)


def _file(entry: Any) -> Path | None:
    """Return the file of an entry in a list of files, or of files with classes."""
    first = entry[0] if isinstance(entry, list | tuple) and entry else entry
    if not isinstance(first, str | Path):
        return None
    try:
        return Path(first) if Path(first).is_file() else None
    except (OSError, ValueError):
        return None


def _picked(inner: Stored, indices: Sequence[int]) -> Stored:
    return lambda index: inner(int(indices[index]))


def _rows_of(array: Any) -> Stored:
    def read(index: int) -> Array:
        row = array[index]
        return trees.array_of(row) if isinstance(row, torch.Tensor) else np.asarray(row)

    return read


def _contents_of(entries: Sequence[Any]) -> Stored:
    def read(index: int) -> Array:
        file = _file(entries[index])
        data = b"" if file is None else file.read_bytes()
        return np.frombuffer(hashlib.blake2b(data, digest_size=16).digest(), dtype=np.uint8)

    return read
