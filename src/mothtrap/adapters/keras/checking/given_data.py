"""Arguments of `fit`: batches for trials, and datasets for data checks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np

from mothtrap.adapters.keras import internals
from mothtrap.adapters.keras.checking.trained_step import Batch, batch_of
from mothtrap.checks.arrays import ArraySet, class_numbers
from mothtrap.checks.step import Array
from mothtrap.checks.subject import DataSet, Rows

Role = Literal["train", "evaluation"]
BATCH_SIZE = 32
"""Default batch size of `fit`."""
MAX_ROWS = 20_000
"""Maximum number of rows of a stream, as for an indexed dataset."""
READ_S = 5.0
"""Maximum time for reading a stream, in seconds; chosen by hand."""


class StreamSet:
    """The first rows of a pipeline; see `checks.subject.DataSet`.

    Args:
        batches: batches from the pipeline.
        name: name of its class.
        role: purpose of the rows.
        location: `file:line` of the call to `fit`.
        origin: the arrays from which the pipeline takes rows, if known.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        name: str,
        role: Role,
        location: str | None,
        origin: DataSet | None = None,
    ) -> None:
        self._batches = batches
        self.name, self.role, self.location = name, role, location
        self.size: int | None = None
        self.origin: DataSet | None = origin
        self.stored: DataSet | None = None
        self.handed: Sequence[Rows] = [] if origin is None else [_rows([one]) for one in batches]
        self.random = self.shuffled = False
        self.base = id(batches)
        self.places: Sequence[int] | None = None
        self.classes: Sequence[str] = ()

    def read(self, _indices: Sequence[int], _deadline: float, /) -> Rows:
        """Return the stored rows."""
        return _rows(self._batches)


class GivenData:
    """Arguments of a `fit` call.

    Args:
        given: values by name.
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

        Arrays are sampled in a fixed random order, because `fit` shuffles.
        """
        if not self.has_arrays:
            return [batch_of(one) for one in itertools.islice(_begun(self._x), count)]
        rows = len(self._rows())
        order = np.random.default_rng(0).permutation(rows)[: count * self._size]
        parts = np.split(order, range(self._size, len(order), self._size))
        return [batch_of(self._picked(part)) for part in parts if len(part)]

    def stream(self) -> Iterator[Any]:
        """Return the training batches from the start of the data, as `fit` receives them."""
        return iter(self.batches(MAX_ROWS)) if self.has_arrays else _begun(self._x)

    def sets(self) -> tuple[DataSet, ...]:
        """Return the training and evaluation datasets."""
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
    """Iterate over a pipeline from its start; a generator continues where it is."""
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
    name = type(pipeline).__name__.lstrip("_")
    return StreamSet(taken, name, role, location, _held_arrays(pipeline, taken, role, location))


def _held_arrays(
    pipeline: Any, taken: Sequence[Batch], role: Role, location: str | None
) -> DataSet | None:
    """Return the arrays of which a `PyDataset`, or the sources of a `tf.data` pipeline, take rows.

    None unless there is one array whose rows look like inputs, and one with equally many targets.
    """
    if not taken:
        return None
    x, y = (keras.tree.flatten(part) for part in taken[0][:2])
    if isinstance(pipeline, keras.utils.PyDataset):
        held = [one for one in vars(pipeline).values() if isinstance(one, np.ndarray)]
    else:
        held = internals.sliced_arrays(pipeline)
    arrays = [one for one in held if one.ndim]
    if len(x) != 1 or len(y) != 1:
        return None
    inputs, targets = ([one for one in arrays if _are_alike(one, part[0])] for part in (x, y))
    if len(inputs) != 1 or len(targets) != 1 or len(inputs[0]) != len(targets[0]):
        return None
    name = type(pipeline).__name__
    return ArraySet(inputs, targets[0], role, name=name, location=location)


def _are_alike(array: Array, part: Any) -> bool:
    """Return whether a batch may consist of rows of an array."""
    batch = np.asarray(part)
    return array.shape[1:] == batch.shape[1:] and array.dtype == batch.dtype


def _rows(batches: Sequence[Batch]) -> Rows:
    parts = [[np.asarray(p) for p in keras.tree.flatten(x)] for x, _, _ in batches]
    if not parts:
        return Rows(indices=(), inputs=(), targets=None)
    inputs = tuple(_joined(several) for several in zip(*parts, strict=False))
    targets = [_target(y) for _, y, _ in batches]
    known = [one for one in targets if one is not None]
    return Rows(
        indices=tuple(range(len(inputs[0]))),
        inputs=inputs,
        targets=_joined(known) if len(known) == len(targets) else None,
    )


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
    """Return the dataset of batches passed to `mothtrap.check`; None for an iterator."""
    if isinstance(loader, list | tuple):
        return StreamSet([batch_of(one) for one in loader], "the batches", role, None)
    if hasattr(loader, "__iter__") and not hasattr(loader, "__next__"):
        return _stream(loader, role, None)
    return None
