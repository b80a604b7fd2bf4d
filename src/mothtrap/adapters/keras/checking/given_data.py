"""What `fit` was given: batches for trials, and data sets for the checks of data."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np

from mothtrap.adapters.keras.checking.trained_step import Batch, batch_of
from mothtrap.checks.step import Array
from mothtrap.checks.subject import DataSet, Rows

Role = Literal["train", "evaluation"]
BATCH_SIZE = 32
"""Rows of a batch where `fit` is given none: its default."""
MAX_ROWS = 20_000
"""Most rows that are taken of a stream, as of an indexed data set."""
READ_S = 5.0
"""Longest time for which a stream is read; chosen by hand."""


class ArraySet:
    """Rows of arrays in memory; see `checks.subject.DataSet`.

    Args:
        x: inputs: an array, or a structure of arrays.
        y: targets; None for none.
        role: purpose of the rows.
        location: `file:line` of the call of `fit`.
        rows: indices of the part that has this role; None = all.
    """

    def __init__(
        self, x: Any, y: Any, role: Role, location: str | None, rows: range | None = None
    ) -> None:
        self._inputs = [np.asarray(part) for part in keras.tree.flatten(x)]
        self._target = _target(y)
        whole = len(self._inputs[0]) if self._inputs else 0
        self._rows = rows if rows is not None else range(whole)
        self.name, self.role, self.location = "the arrays of fit", role, location
        self.size: int | None = len(self._rows)
        self.drawn: Sequence[int] = ()
        self.random = self.shuffled = False
        self.base = id(x)
        self.places: Sequence[int] | None = self._rows if rows is not None else None

    def read(self, indices: Sequence[int], _deadline: float, /) -> Rows:
        """Return rows by index."""
        picked = [self._rows[index] for index in indices]
        return Rows(
            indices=tuple(indices),
            inputs=tuple(part[picked] for part in self._inputs),
            targets=None if self._target is None else self._target[picked],
        )


class StreamSet:
    """The first rows of a pipeline; see `checks.subject.DataSet`.

    Args:
        batches: taken from the pipeline.
        name: of its class.
        role: purpose of the rows.
        location: `file:line` of the call of `fit`.
    """

    def __init__(
        self, batches: Sequence[Batch], name: str, role: Role, location: str | None
    ) -> None:
        self._batches = batches
        self.name, self.role, self.location = name, role, location
        self.size: int | None = None
        self.drawn: Sequence[int] = ()
        self.random = self.shuffled = False
        self.base = id(batches)
        self.places: Sequence[int] | None = None

    def read(self, _indices: Sequence[int], _deadline: float, /) -> Rows:
        """Return the rows that were taken."""
        parts = [[np.asarray(p) for p in keras.tree.flatten(x)] for x, _, _ in self._batches]
        if not parts:
            return Rows(indices=(), inputs=(), targets=None)
        inputs = tuple(_joined(several) for several in zip(*parts, strict=False))
        targets = [_target(y) for _, y, _ in self._batches]
        known = [one for one in targets if one is not None]
        return Rows(
            indices=tuple(range(len(inputs[0]))),
            inputs=inputs,
            targets=_joined(known) if len(known) == len(targets) else None,
        )


class GivenData:
    """Arguments of a call of `fit`.

    Args:
        given: by name.
        location: `file:line` of the call.
    """

    def __init__(self, given: Mapping[str, Any], location: str | None) -> None:
        self._location = location
        self._x, self._y = given.get("x"), given.get("y")
        self._validation = given.get("validation_data")
        self._split = float(given.get("validation_split") or 0.0)
        self._size = int(given.get("batch_size") or BATCH_SIZE)
        self._weight = given.get("sample_weight")
        self.is_weighted = any(given.get(k) is not None for k in ("class_weight", "sample_weight"))

    @property
    def has_arrays(self) -> bool:
        """True if `fit` was given arrays."""
        parts = keras.tree.flatten(self._x)
        return bool(parts) and all(isinstance(part, np.ndarray) for part in parts)

    def batches(self, count: int) -> list[Batch]:
        """Return batches of training rows, as arrays.

        Arrays are drawn from in a random order that is always the same, since `fit` shuffles.
        """
        if not self.has_arrays:
            return [batch_of(one) for one in itertools.islice(_begun(self._x), count)]
        rows = len(self._rows())
        order = np.random.default_rng(0).permutation(rows)[: count * self._size]
        parts = np.split(order, range(self._size, len(order), self._size))
        return [batch_of(self._picked(part)) for part in parts if len(part)]

    def sets(self) -> tuple[DataSet, ...]:
        """Return the data sets of training and of evaluation."""
        found: list[DataSet] = []
        if self.has_arrays:
            found.append(ArraySet(self._x, self._y, "train", self._location, self._rows()))
            rows = range(len(self._rows()), len(keras.tree.flatten(self._x)[0]))
            if rows and self._validation is None:
                found.append(ArraySet(self._x, self._y, "evaluation", self._location, rows))
        else:
            found.append(_stream(self._x, "train", self._location))
        if isinstance(self._validation, list | tuple) and len(self._validation) > 1:
            x, y = self._validation[:2]
            found.append(ArraySet(x, y, "evaluation", self._location))
        elif self._validation is not None:
            found.append(_stream(self._validation, "evaluation", self._location))
        return tuple(found)

    def _rows(self) -> range:
        whole = len(keras.tree.flatten(self._x)[0])
        return range(int(whole * (1.0 - self._split)))

    def _picked(self, rows: Array) -> tuple[Any, Any]:
        x, y = (
            None
            if part is None
            else keras.tree.map_structure(lambda one: np.asarray(one)[rows], part)
            for part in (self._x, self._y)
        )
        return x, y


def _begun(pipeline: Any) -> Iterator[Any]:
    """Iterate a pipeline from its start; a generator goes on where it is."""
    if isinstance(pipeline, keras.utils.PyDataset):
        return (pipeline[n] for n in range(pipeline.num_batches or 0))
    return iter(pipeline)


def _stream(pipeline: Any, role: Role, location: str | None) -> StreamSet:
    taken: list[Batch] = []
    rows, until = 0, time.monotonic() + READ_S
    for given in _begun(pipeline):
        batch = batch_of(given)
        taken.append(batch)
        rows += len(keras.tree.flatten(batch[0])[0])
        if rows >= MAX_ROWS or time.monotonic() > until:
            break
    return StreamSet(taken, type(pipeline).__name__.lstrip("_"), role, location)


def _target(y: Any) -> Array | None:
    """Return one target per row; the class number of one that is given as a vector of 0 and 1."""
    parts = [] if y is None else keras.tree.flatten(y)
    if len(parts) != 1:
        return None
    found = np.asarray(parts[0])
    one_hot = found.ndim == 2 and found.shape[1] > 1 and bool(np.isin(found, (0, 1)).all())
    if one_hot and bool((found.sum(1) == 1).all()):
        return np.asarray(found.argmax(1))
    return found


def _joined(arrays: Sequence[Array]) -> Array:
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    rows = [row for array in arrays for row in array]
    whole = np.empty(len(rows), dtype=object)
    whole[:] = rows
    return whole


def given_set(loader: object, role: Role) -> DataSet | None:
    """Return the data set of batches that `mothtrap.check` is given; None for an iterator."""
    if isinstance(loader, list | tuple):
        return StreamSet([batch_of(one) for one in loader], "the batches", role, None)
    if hasattr(loader, "__iter__") and not hasattr(loader, "__next__"):
        return _stream(loader, role, None)
    return None
