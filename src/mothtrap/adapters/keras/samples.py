"""Find the samples in a batch by their values, in the arrays or files of a `fit`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow.records import Array, Row, are_same, records_of

TOGETHER: Final = 4096
"""Number of array rows that are compared at once."""
NAMED: Final = 3
"""Maximum number of named samples with equal content."""


def samples_of(data: tuple[Any, Any], batch: Any, rows: Sequence[int]) -> tuple[str, ...]:
    """Return the origin of each row in the data, as text; empty if unknown.

    Args:
        data: `x` and `y` of `fit`.
        batch: batch of the rows, as passed to the train function.
        rows: positions of the rows.

    Raises:
        Exception: any exception raised when a pipeline is read again.
    """
    tensors = [np.asarray(leaf) for leaf in tf.nest.flatten(batch) if leaf is not None]
    wanted = [[tensor[row] for tensor in tensors] for row in rows]
    if isinstance(data[0], tf.data.Dataset):
        every = records_of(data[0], wanted)
    else:
        arrays = _arrays(data)
        every = _rows_of(arrays, wanted) if arrays else iter(())
    found = defaultdict[int, list[str]](list)
    for position, name in every:
        found[position].append(name)
    return tuple(_in_words(found[position]) for position in range(len(rows)))


def in_variables(variables: Mapping[str, Any], batch: Any, rows: Sequence[int]) -> tuple[str, ...]:
    """Return the origin of each row in an array of the script, as text; '' if unknown.

    Args:
        variables: variables of the script, by name.
        batch: batch of the rows; if it contains no array, it is searched among the variables.
        rows: positions of the rows.
    """
    leaves = [leaf for leaf in tf.nest.flatten(batch) if isinstance(leaf, np.ndarray) and leaf.ndim]
    arrays = {name: one for name, one in variables.items() if _is_array(one)}
    found = ["" for _ in rows]
    for part in leaves or [np.asarray(one) for one in arrays.values()]:
        if len(part) <= max(rows, default=0) or part.ndim < 2:
            continue
        for name, array in arrays.items():
            if len(array) <= len(part) or tuple(array.shape[1:]) != part.shape[1:]:
                continue
            for position, row in enumerate(rows):
                same = _rows_of([array], [[part[row]]])
                indices = [text.split()[1] for _, text in same]
                if indices and not found[position]:
                    told = [f"sample {index} of {name}" for index in indices]
                    found[position] = _in_words(told)
    return tuple(found)


def _is_array(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray | tf.Tensor)
    return is_array and len(value.shape) > 1 and value.dtype not in (object, tf.string)


def _arrays(data: tuple[Any, Any]) -> list[Any]:
    """Return the arrays of a `fit`, flattened; none if other data was passed."""
    arrays = [leaf for leaf in tf.nest.flatten(data) if leaf is not None]
    return (
        arrays if all(hasattr(one, "__array__") and hasattr(one, "shape") for one in arrays) else []
    )


def _rows_of(arrays: Sequence[Any], wanted: Sequence[Row]) -> Iterator[tuple[int, str]]:
    for start in range(0, len(arrays[0]), TOGETHER):
        parts = [np.asarray(array[start : start + TOGETHER]) for array in arrays]
        for position, row in enumerate(wanted):
            is_like_N = np.ones(len(parts[0]), bool)
            for part, value in zip(parts, row, strict=False):
                is_like_N &= _is_like(part, value)
            for index in np.flatnonzero(is_like_N):
                yield position, f"sample {start + index} of the data"


def _is_like(part: Array, value: Array) -> Any:
    """Return, for each row of an array, whether it has the given values."""
    given = part.astype(value.dtype).reshape(len(part), -1)
    expected = value.reshape(1, -1)
    if given.shape[1] != expected.shape[1]:
        return False
    return are_same(given, expected).all(axis=1)


def _in_words(names: Sequence[str]) -> str:
    more = f" or {len(names) - NAMED} more" if len(names) > NAMED else ""
    return " or ".join(names[:NAMED]) + more
