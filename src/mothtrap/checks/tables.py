"""Samples of a dataset in the forms that checks compare: digests, columns, class numbers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData

MAX_ROWS = 20_000
"""Maximum number of samples that a check reads; a larger dataset is sampled. Chosen by hand."""
MAX_BYTES = 2**28
"""Most memory for the samples of a dataset; chosen by hand."""
READ_S = 10.0
"""Longest time for which a check reads one dataset; chosen by hand."""
CHUNK = 256
MAX_COLUMNS = 500
"""Most columns of a table; wider samples are images or signals. Chosen by hand."""
MAX_CLASSES = 1000
"""Most distinct class numbers; more are identifiers. Chosen by hand."""
GRID = 8
"""Side to which images are averaged for simple models; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digested:
    """Digests of the inputs of samples.

    Attributes:
        indices: Indices of the samples, in the order read.
        digests: one per sample; samples whose values are all equal, such as blank images, have
            an empty digest.
        targets: one row per sample; None for a dataset without targets.
    """

    indices: tuple[int, ...]
    digests: tuple[bytes, ...]
    targets: Array | None


def training_set(subject: Subject) -> DataSet:
    """Return the largest training dataset.

    Raises:
        NotEnoughData: there is none.
    """
    found = subject.of("train")
    if not found:
        raise NotEnoughData("no training dataset was recorded")
    return max(found, key=lambda one: one.size or 0)


def evaluation_sets(subject: Subject) -> tuple[DataSet, ...]:
    """Return the evaluation datasets.

    Raises:
        NotEnoughData: there is none.
    """
    found = subject.of("evaluation")
    if not found:
        raise NotEnoughData("no evaluation dataset was recorded")
    return found


def read(dataset: DataSet, subject: Subject, most: int = MAX_ROWS) -> Rows:
    """Read samples in a fixed random order, within the limits of this module."""
    order, until = _order(dataset, most), _until(subject)
    first = dataset.read(order[:1], until)
    size = sum(_bytes(array) for array in first.inputs)
    return dataset.read(order[: max(1, MAX_BYTES // max(size, 1))], until)


def digested(
    dataset: DataSet, subject: Subject, digest: Callable[[Rows], Iterator[bytes]] | None = None
) -> Digested:
    """Read samples in parts, keeping digests instead of inputs; `digest` replaces `digests`."""
    indices: list[int] = []
    keys: list[bytes] = []
    targets: list[Array] = []
    for rows in _parts(dataset, subject):
        indices += rows.indices
        keys += (digest or digests)(rows)
        if rows.targets is not None and rows.targets.dtype.kind in "biuf":
            targets.append(rows.targets)
    shapes = {array.shape[1:] for array in targets}
    whole = len(shapes) == 1 and sum(map(len, targets)) == len(indices)
    joined = np.concatenate(targets) if whole else None
    return Digested(indices=tuple(indices), digests=tuple(keys), targets=joined)


def _parts(dataset: DataSet, subject: Subject) -> Iterator[Rows]:
    order, until = _order(dataset, MAX_ROWS), _until(subject)
    if dataset.size is None:
        yield dataset.read((), until)
        return
    for start in range(0, len(order), CHUNK):
        if time.monotonic() > until:
            return
        yield dataset.read(order[start : start + CHUNK], until)


def _order(dataset: DataSet, most: int) -> list[int]:
    found: list[int] = np.random.default_rng(0).permutation(dataset.size or 0)[:most].tolist()
    return found


def _until(subject: Subject) -> float:
    """Return the time at which reading ends; the check needs the remaining time to compute."""
    return time.monotonic() + min(READ_S, subject.left_s / 4)


def _bytes(array: Array) -> int:
    if array.dtype == object:
        return sum(int(one.nbytes) for one in array)
    return int(array.nbytes)


def digests(rows: Rows) -> Iterator[bytes]:
    """Yield a digest of the inputs of each row; empty if all of the row's values are equal."""
    for place in range(len(rows.indices)):
        parts = [np.asarray(array[place]) for array in rows.inputs]
        if all(part.size == 0 or bool((part == part.flat[0]).all()) for part in parts) and any(
            part.size > 1 for part in parts
        ):
            yield b""
            continue
        told = hashlib.blake2b(digest_size=12)
        for part in parts:
            plain = part.astype(np.float32) + 0.0 if part.dtype.kind == "f" else part
            told.update(repr(plain.shape).encode())
            told.update(np.ascontiguousarray(plain).tobytes())
        yield told.digest()


def sequence_digests(rows: Rows) -> Iterator[bytes]:
    """Yield a digest of the longest input of each row, such as its tokens."""
    for place in range(len(rows.indices)):
        yield sequence_digest(longest_input(rows, place))


def sequence_digest(values: Array) -> bytes:
    """Return a digest of a sequence; empty if it is shorter than two or all values are equal."""
    if len(values) < 2 or values.dtype.kind not in "biuf" or (values == values[0]).all():
        return b""
    plain = np.ascontiguousarray(values.astype(np.float32) + 0.0)
    return hashlib.blake2b(repr(plain.shape).encode() + plain.tobytes(), digest_size=12).digest()


def longest_input(rows: Rows, place: int) -> Array:
    """Return the input of a row with the most values, with at least one axis."""
    parts = [np.atleast_1d(np.asarray(array[place])) for array in rows.inputs]
    return max(parts, key=lambda part: part.size)


def columns(rows: Rows) -> Array | None:
    """Return the inputs as a table, float64 of shape (rows, columns); None if they are not a table.

    Samples of a table are numbers or vectors of numbers, with at most `MAX_COLUMNS` together.
    """
    arrays = [array for array in rows.inputs if array.dtype.kind in "biuf"]
    if not arrays or len(arrays) < len(rows.inputs) or any(array.ndim > 2 for array in arrays):
        return None
    table = np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)
    return table.astype(float) if 0 < table.shape[1] <= MAX_COLUMNS else None


def features(rows: Rows) -> Array:
    """Return features for a simple model, float64 of shape (rows, features).

    Images that have more than `MAX_COLUMNS` values are averaged to `GRID` x `GRID`.

    Raises:
        NotApplicable: the inputs are neither a table nor images.
    """
    table = columns(rows)
    if table is not None:
        return table
    arrays = [array for array in rows.inputs if array.dtype.kind in "biuf"]
    if len(arrays) != 1 or len(rows.inputs) != 1 or arrays[0].ndim < 3:
        raise NotApplicable("the inputs are neither a table nor images")
    flat = arrays[0].reshape(len(arrays[0]), -1)
    if flat.shape[1] > MAX_COLUMNS:
        flat = _averaged(arrays[0]).reshape(len(flat), -1)
    if flat.shape[1] > MAX_COLUMNS:
        raise NotApplicable(f"samples have more than {MAX_COLUMNS} values")
    return flat.astype(float)


def _averaged(pictures: Array) -> Array:
    """Average each axis that is longer than `GRID` over `GRID` equal parts."""
    found: Array = pictures.astype(np.float32)
    for axis in range(1, found.ndim):
        if found.shape[axis] > GRID:
            starts = np.linspace(0, found.shape[axis], GRID, endpoint=False).astype(int)
            counts = np.diff([*starts, found.shape[axis]])
            shape = [-1 if n == axis else 1 for n in range(found.ndim)]
            found = np.add.reduceat(found, starts, axis=axis) / counts.reshape(shape)
    return found


def classes(targets: Array | None, subject: Subject) -> Array:
    """Return the class number of each row, int64 of shape (rows,).

    Raises:
        NotApplicable: the targets are not class numbers.
    """
    flat = None if targets is None else _one_number_each(targets)
    if flat is not None and subject.task != "numbers" and flat.size:
        distinct = np.unique(flat)
        whole = flat.dtype.kind in "biu" and distinct.size <= MAX_CLASSES
        known = subject.task == "classes" or distinct.size <= max(2, len(flat) // 10)
        if (whole and known) or (flat.dtype.kind == "f" and set(distinct.tolist()) <= {0.0, 1.0}):
            return flat.astype(np.int64)
    raise NotApplicable("the targets of the dataset are not class numbers")


def numbers(targets: Array | None, subject: Subject) -> Array:
    """Return the numeric target of each row, float64 of shape (rows,).

    Raises:
        NotApplicable: the targets are not numbers.
    """
    flat = None if targets is None else _one_number_each(targets)
    if flat is None or subject.task != "numbers":
        raise NotApplicable("the targets of the dataset are neither class numbers nor numbers")
    return flat.astype(float)


def _one_number_each(targets: Array) -> Array | None:
    plain = targets.dtype.kind in "biuf" and targets.size == len(targets)
    return targets.reshape(-1) if plain else None


def named(indices: list[int], most: int = 10) -> str:
    """Return a few indices as text, such as `3, 17, 20, ...`."""
    shown = ", ".join(map(str, sorted(indices)[:most]))
    return f"{shown}, ..." if len(indices) > most else shown
