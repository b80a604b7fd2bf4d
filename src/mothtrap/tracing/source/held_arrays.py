"""Arrays in the variables of the running script, and where rows of a batch occur in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frame_variables import Variables, variables

Array = npt.NDArray[Any]
Read = Callable[[Any], Array | None]
"""Returns a value as an array of the host; None if it is no array, or must not be read."""

LIBRARIES: Final = frozenset({"numpy", "jax", "jaxlib", "torch"})
"""Packages whose arrays are inspected."""
MOST_FRAMES: Final = 8
MOST_ITEMS: Final = 64
"""Maximum number of items of a container; larger containers are not inspected."""
DEPTH, MOST_VALUES = 3, 4096
"""Maximum depth of a variable's parts, and number of all values. Chosen by hand: 2 ms."""
MOST_BYTES: Final = 1 << 30
ROWS_TRIED: Final = 4
COLUMNS_TRIED: Final = 8


def arrays_in_reach(frame: FrameType | None, depth: int = DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield the arrays in the variables of the user's frames, innermost frame first.

    Containers, attributes of objects, and variables of suspended generators count too.

    Args:
        frame: the innermost frame.
        depth: maximum depth of a variable's parts.
    """
    seen, count = set[int](), 0
    while frame is not None and count < MOST_FRAMES:
        if frames.is_users(frame):
            count += 1
            yield from _among(variables(frame) or [], seen, depth)
        frame = frame.f_back


def _among(named: Variables, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in named:
        if len(seen) >= MOST_VALUES:
            return
        if id(value) in seen or isinstance(value, str | bytes | int | float | type | None):
            continue
        seen.add(id(value))
        if _is_array(value):
            yield name, value
        elif depth:
            yield from _among(_inside(name, value), seen, depth - 1)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array; attributes of the user's own classes are not read."""
    if type(value).__module__.partition(".")[0] not in LIBRARIES:
        return False
    try:
        return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")
    except RuntimeError:  # a nested tensor of PyTorch has no shape
        return False


def _inside(name: str, value: Any) -> Variables:
    """Return the parts of a value, by name; no code of the user runs."""
    if inspect.isgenerator(value):
        return (variables(value.gi_frame) or []) if value.gi_frame is not None else []
    if type(value) in (list, tuple) and len(value) <= MOST_ITEMS:
        return [(f"{name}[{index}]", one) for index, one in enumerate(value)]
    if type(value) is dict and len(value) <= MOST_ITEMS:
        return [(f"{name}[{key!r}]", one) for key, one in value.items()]
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if not isinstance(own, Mapping) or inspect.ismodule(value) or len(own) > MOST_ITEMS:
        return []
    # an attribute that is not public only stores the attributes that are
    return [(name if key[:1] == "_" else f"{name}.{key}", one) for key, one in own.items()]


def same_as(array: Any) -> Callable[[Any], bool]:
    """Return a function that says whether it gets this array.

    An array of NumPy to which even a weak reference exists cannot be resized, so only the identity
    of one that owns its data is kept. PyTorch swaps tensors in spite of an `OwnRef`.
    """
    number = id(array)
    if isinstance(array, np.ndarray) and array.flags.owndata:
        return lambda other: id(other) == number
    try:
        reference = OwnRef(array)
    except TypeError:
        return lambda other: id(other) == number
    return lambda other: other is reference()


def rows_of(batch: Array, frame: FrameType | None, read: Read, part: float) -> tuple[str, int]:
    """Return the name of an array of which a batch is a small part, and its number of rows.

    Args:
        batch: shape (rows, ...).
        frame: the innermost frame of the script.
        read: reads an array of the script.
        part: largest share of the array's rows that is a small part.

    Returns:
        An empty name if no array in reach contains the rows.
    """
    for name, value in arrays_in_reach(frame):
        shape = tuple(value.shape)
        if not shape or len(batch) > part * shape[0] or getattr(value, "nbytes", 0) > MOST_BYTES:
            continue
        is_series = len(shape) == 1 and batch.ndim == 2
        if shape[1:] != batch.shape[1:] and not (is_series and batch.size <= part * shape[0]):
            continue
        array = read(value)
        if array is None or array.dtype != batch.dtype or array.dtype.kind not in "fiu":
            continue
        if is_series:
            array = np.lib.stride_tricks.sliding_window_view(array, batch.shape[1])
        if contains(array, batch):
            return name, int(shape[0])
    return "", 0


def contains(array: Array, batch: Array) -> bool:
    """Return whether some rows of a batch, spread over it, are rows of an array."""
    places = np.unique(np.linspace(0, len(batch) - 1, ROWS_TRIED).astype(int))
    return all(_holds(array, batch[place]) for place in places.tolist())


def _holds(array: Array, row: Array) -> bool:
    places = np.arange(len(array))
    for index in _telling(row):
        cells = array[(places, *index)]
        places = places[cells == row[index]]
        if not places.size:
            return False
    return any(np.array_equal(array[place], row) for place in places[:COLUMNS_TRIED].tolist())


def _telling(row: Array) -> list[tuple[int, ...]]:
    """Return the places of a few values of a row that are unlike most others."""
    flat = row.reshape(-1)
    distance = np.abs(flat.astype(np.float64) - np.median(flat.astype(np.float64)))
    chosen = np.argsort(-distance, kind="stable")[:COLUMNS_TRIED]
    return [tuple(int(one) for one in np.unravel_index(n, row.shape)) for n in chosen.tolist()]
