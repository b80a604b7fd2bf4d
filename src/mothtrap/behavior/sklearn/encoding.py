"""Columns as a matrix for models of scikit-learn.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.table import Column, Table

MAX_FEATURES = 200
"""Most columns that simple models get; chosen by hand: more take minutes."""
MAX_LEVELS = 50


class Encoder:
    """Turns tables into matrices with the columns and levels of one table.

    Args:
        table: Defines columns and levels. Of arrays with more than two axes, `MAX_FEATURES` evenly
            spaced values become columns.
    """

    def __init__(self, table: Table) -> None:
        self._columns = table.columns[:MAX_FEATURES]
        self.names = tuple(c.name for c in self._columns)
        self._levels = {
            c.name: c.levels[:MAX_LEVELS] for c in self._columns if c.code_R is not None
        }
        self._has_gaps = {c.name for c in self._columns if c.missing_R.any()}

    def ordinal(self, table: Table) -> npt.NDArray[np.float64]:
        """Return (R, F): numbers as given, indices of levels for categories, NaN if missing."""
        if not self._columns:
            return _flat(table)
        found = [self._codes(table.column(name)) for name in self.names]
        return np.stack(found, axis=1)

    @property
    def categories_F(self) -> npt.NDArray[np.bool_]:  # noqa: N802  # a shape suffix
        """The features (F,) of `ordinal` that are indices of levels."""
        return np.array([name in self._levels for name in self.names], bool)

    def one_hot(self, table: Table) -> npt.NDArray[np.float64]:
        """Return (R, F) without missing values: a column of 0 and 1 for each level.

        Columns with missing values in the encoder's table get a second column that marks the
        missing values.
        """
        if not self._columns:
            return np.nan_to_num(_flat(table))
        parts: list[Any] = []
        for name in self.names:
            code_R = self._codes(table.column(name))
            if name in self._levels:
                parts += [(code_R == k).astype(float) for k in range(len(self._levels[name]))]
                continue
            gone_R = ~np.isfinite(code_R)
            middle = float(np.median(code_R[~gone_R])) if not gone_R.all() else 0.0
            parts.append(np.where(gone_R, middle, code_R))
            if name in self._has_gaps:
                parts.append(gone_R.astype(float))
        return np.stack(parts, axis=1)

    def _codes(self, column: Column) -> npt.NDArray[np.float64]:
        levels = self._levels.get(column.name)
        if levels is None:
            if column.number_R is None:
                return np.full(len(column.missing_R), np.nan)
            return np.where(np.isfinite(column.number_R), column.number_R, np.nan)
        if column.code_R is None:
            return np.full(len(column.missing_R), np.nan)
        place = {name: float(k) for k, name in enumerate(levels)}
        known = np.array([place.get(name, np.nan) for name in column.levels] + [np.nan])
        return known[column.code_R]


def _flat(table: Table) -> npt.NDArray[np.float64]:
    values = np.asarray(table.data, np.float64).reshape(len(table), -1)
    step = max(1, -(-values.shape[1] // MAX_FEATURES))
    return values[:, ::step]
