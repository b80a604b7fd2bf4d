"""Growing arrays of which the last rows are read.

A returned view never changes: rows are only added after it, and when the array is full, the last
rows move to a new array. Shape suffixes: S = rows, C = columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST_ROWS = 64
"""Number of rows of a new array; chosen by hand: enough for a demo run."""
FIRST_WIDTH = 16


class Column:
    """One value per row.

    Args:
        keep: maximum number of rows that `view` shows.
        dtype: dtype of the values.
    """

    __slots__ = ("_array", "_keep", "_shown", "_stop")

    def __init__(self, keep: int, dtype: type[np.generic]) -> None:
        self._keep = keep
        self._array: npt.NDArray[Any] = np.empty(min(FIRST_ROWS, 2 * keep), dtype)
        self._stop = 0
        self._shown = self._array, -1, self._array

    def append(self, value: float) -> None:
        """Append a row; amortized O(1)."""
        if self._stop == len(self._array):
            self._move(1)
        self._array[self._stop] = value
        self._stop += 1

    def extend(self, values: Sequence[Any] | npt.NDArray[Any]) -> None:
        """Append one row per value; amortized O(1) per row."""
        if self._stop + len(values) > len(self._array):
            self._move(len(values))
        self._array[self._stop : self._stop + len(values)] = values
        self._stop += len(values)

    def view(self) -> npt.NDArray[Any]:
        """Return the last rows as a read-only view, shape (S,)."""
        array, stop, view = self._shown
        if array is not self._array or stop != self._stop:
            array, stop = self._array, self._stop
            view = _read_only(array[max(0, stop - self._keep) : stop])
            self._shown = array, stop, view
        return view

    def forget(self, rows: int) -> None:
        """Drop all but the first `rows` rows of the view."""
        start = max(0, self._stop - self._keep)
        self._array = self._array[start:].copy()
        self._stop = rows

    def _move(self, more: int) -> None:
        """Make room for `more` rows."""
        start = max(0, self._stop - self._keep)
        rows = min(max(2 * len(self._array), FIRST_ROWS), 2 * self._keep)
        rows = max(rows, self._stop - start + more)
        moved = np.empty(rows, self._array.dtype)
        moved[: self._stop - start] = self._array[start : self._stop]
        self._array, self._stop = moved, self._stop - start


class Table:
    """Values and presence of a growing number of columns; missing values are NaN.

    Args:
        keep: maximum number of rows that `views` shows.
    """

    __slots__ = ("_keep", "_present_SC", "_stop", "_values_SC", "_width")

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._stop = 0
        self._width = 0
        self._allocate(min(FIRST_ROWS, 2 * keep), FIRST_WIDTH)

    def widen(self, width: int) -> None:
        """Extend the table to `width` columns; new columns are missing in earlier rows."""
        self._width = width
        if width > self._values_SC.shape[1]:
            self._move(len(self._values_SC), 2 * width)

    def append(self, columns: npt.NDArray[np.intp], values: npt.NDArray[np.float64]) -> None:
        """Append a row with `values` in `columns`; other columns are missing."""
        if self._stop == len(self._values_SC):
            rows = min(max(2 * self._stop, FIRST_ROWS), 2 * self._keep)
            self._move(rows, self._values_SC.shape[1])
        self._values_SC[self._stop, columns] = values
        self._present_SC[self._stop, columns] = True
        self._stop += 1

    def views(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return values and presence of the last rows, read-only, shape (S, C)."""
        rows = slice(max(0, self._stop - self._keep), self._stop)
        values, present = (
            self._values_SC[rows, : self._width],
            self._present_SC[rows, : self._width],
        )
        return _read_only(values), _read_only(present)

    def forget(self, rows: int) -> None:
        """Drop all but the first `rows` rows of the views."""
        self._stop = max(0, self._stop - self._keep) + rows
        self._move(len(self._values_SC), self._values_SC.shape[1])

    def _move(self, rows: int, width: int) -> None:
        start = max(0, self._stop - self._keep)
        values, present = self._values_SC[start : self._stop], self._present_SC[start : self._stop]
        self._allocate(rows, width)
        self._stop -= start
        self._values_SC[: self._stop, : values.shape[1]] = values
        self._present_SC[: self._stop, : present.shape[1]] = present

    def _allocate(self, rows: int, width: int) -> None:
        self._values_SC = np.full((rows, width), np.nan)
        self._present_SC = np.zeros((rows, width), np.bool_)


def _read_only(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view that cannot be made writeable again."""
    return np.asarray(memoryview(view).toreadonly())  # type: ignore[arg-type]  # an array is one
