"""Arguments of `fit`: batches for trials, and data sets for the checks of data."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np

from mothtrap.adapters.keras.checking.trained_step import Batch, batch_of
from mothtrap.checks.arrays import ArraySet, class_numbers
from mothtrap.checks.step import Array
from mothtrap.checks.subject import DataSet, Rows

Role = Literal["train", "evaluation"]
BATCH_SIZE = 32
"""Rows of a batch where `fit` is given none: its default."""
MAX_ROWS = 20_000
"""Most rows that are taken of a stream, as of an indexed data set."""
READ_S = 5.0
"""Longest time for which a stream is read; chosen by hand."""


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
        self.handed: Sequence[Rows] = ()
        self.random = self.shuffled = False
        self.base = id(batches)
        self.places: Sequence[int] | None = None
        self.classes: Sequence[str] = ()

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

    def stream(self) -> Iterator[Any]:
        """Return the batches of training from the start of the data, as `fit` is given them."""
        return iter(self.batches(MAX_ROWS)) if self.has_arrays else _begun(self._x)

    def sets(self) -> tuple[DataSet, ...]:
        """Return the data sets of training and of evaluation."""
        found: list[DataSet] = []
        if self.has_arrays:
            found.append(self._arrays(self._x, self._y, "train", self._rows()))
            rows = range(len(self._rows()), len(keras.tree.flatten(self._x)[0]))
            if rows and self._validation is None:
                found.append(self._arrays(self._x, self._y, "evaluation", rows))
        else:
            found.append(_stream(self._x, "train", self._location))
        if isinstance(self._validation, list | tuple) and len(self._validation) > 1:
            x, y = self._validation[:2]
            found.append(self._arrays(x, y, "evaluation"))
        elif self._validation is not None:
            found.append(_stream(self._validation, "evaluation", self._location))
        return tuple(found)

    def _arrays(self, x: Any, y: Any, role: Role, rows: range | None = None) -> ArraySet:
        return ArraySet(
            [np.asarray(part) for part in keras.tree.flatten(x)],
            _target(y),
            role,
            name="the arrays of fit",
            location=self._location,
            rows=rows,
            base=id(x),
        )

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
    """Return one target per row; None for several targets."""
    parts = [] if y is None else keras.tree.flatten(y)
    return class_numbers(np.asarray(parts[0])) if len(parts) == 1 else None


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
