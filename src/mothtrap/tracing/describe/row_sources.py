"""The variable of the script that holds all rows from which batches are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.held_arrays import Read, arrays_in_reach, same_as

Array = npt.NDArray[Any]

MAX_KEPT = 64
"""Maximum number of arrays that are compared."""
PROBES: Final = 8
"""Rows of an array that must stay as they are, and columns in which rows are compared first."""
MAX_COUNTED, MAX_COLUMNS = 1 << 16, 256
"""Maximum number of rows and columns of an array whose distinct rows are counted."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """A variable that contains the rows of a batch, and the number of its distinct rows."""

    name: str
    rows: int


class RowSources:
    """Arrays of a script that exist while batches are drawn, and do not change.

    Args:
        view: returns the elements of a tensor of the framework, or of an array, without a copy.
    """

    def __init__(self, view: Read) -> None:
        self._view = view
        self._kept: dict[str, tuple[Callable[[Any], bool], bytes]] = {}

    def remember(self, rows: int, elements: int) -> None:
        """Remember the arrays in the variables of the running script.

        Args:
            rows: minimum number of rows of an array.
            elements: number of elements of a row.
        """
        for name, value, array in self._arrays():
            fits = len(array) >= rows and array.size == len(array) * elements
            if fits and len(self._kept) < MAX_KEPT:
                self._kept.setdefault(name, (same_as(value), _probe(array)))

    def find(self, rows_RF: Array) -> RowSource | None:
        """Return the smallest remembered array that contains all of some rows.

        Args:
            rows_RF: some rows of a batch, flattened, in the order of its columns.
        """
        found: list[RowSource] = []
        for name, value, array in self._arrays() if self._kept else ():
            is_same, probe = self._kept.get(name, (None, b""))
            if is_same is None or not is_same(value) or _probe(array) != probe:
                continue
            flat_RF = array.reshape(len(array), -1)
            if all(_contains(flat_RF, row_F) for row_F in rows_RF):
                found.append(RowSource(name, _distinct(flat_RF)))
        return min(found, key=lambda one: (one.rows, len(one.name)), default=None)

    def _arrays(self) -> Iterator[tuple[str, Any, Array]]:
        for name, value in arrays_in_reach(frames.user_frame()):
            array = self._view(value)
            if array is not None and array.ndim > 1 and len(array):
                yield name, value, array


def _probe(array: Array) -> bytes:
    """Return evenly spread rows."""
    places = np.linspace(0, len(array) - 1, PROBES).astype(int)
    return np.ascontiguousarray(array[places]).tobytes()


def _contains(flat_RF: Array, row_F: Array) -> bool:
    columns = np.linspace(0, len(row_F) - 1, min(PROBES, len(row_F))).astype(int)
    some_RC = flat_RF[:, columns].astype(row_F.dtype, copy=False)
    places = np.flatnonzero((some_RC == row_F[columns]).all(axis=1))
    return any(np.array_equal(flat_RF[p].astype(row_F.dtype), row_F) for p in places[:PROBES])


def _distinct(flat_RF: Array) -> int:
    """Return the number of distinct rows, estimated for a large array."""
    rows, columns = flat_RF.shape
    # evenly spread, because the end of a buffer may not be filled yet
    some_RF = flat_RF[:: max(1, -(-rows // MAX_COUNTED)), :: max(1, columns // MAX_COLUMNS)]
    few = np.ascontiguousarray(some_RF)
    different = len(np.unique(few.view(f"V{few.dtype.itemsize * few.shape[1]}")))
    return int(different * rows / len(few))
