"""The rows for which a model is queried, as columns, independent of their container.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_DISTINCT = 10
"""Numbers with at most this many distinct values are searched value by value; chosen by hand."""

Rows = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class Column:
    """A column whose values are converted when they are first needed.

    Most tables are only passed on to the model, and converting texts takes longer than many models.

    Args:
        name: Name of the column.
        given_R: Values as given.
    """

    def __init__(self, name: str, given_R: Any) -> None:
        self.name, self.given_R = name, given_R

    @functools.cached_property
    def number_R(self) -> npt.NDArray[np.float64] | None:  # noqa: N802  # a shape suffix
        """The values as float64, NaN if missing; None for categories."""
        values_R = np.asarray(self.given_R)
        if values_R.dtype.kind in "biuf":
            return values_R.astype(np.float64)
        if values_R.dtype.kind == "M":
            seconds_R = values_R.astype("datetime64[us]").astype(np.float64) / 1e6
            return np.where(np.isnat(values_R), np.nan, seconds_R)
        return None

    @functools.cached_property
    def _categories(self) -> tuple[tuple[str, ...], npt.NDArray[np.int64] | None]:
        return ((), None) if self.is_number else _levels(np.asarray(self.given_R))

    @property
    def levels(self) -> tuple[str, ...]:
        """Distinct texts of a category, the most frequent first; empty for numbers."""
        return self._categories[0]

    @property
    def code_R(self) -> npt.NDArray[np.int64] | None:  # noqa: N802  # a shape suffix
        """Indices into `levels`, -1 where missing; None for numbers."""
        return self._categories[1]

    @property
    def is_number(self) -> bool:
        """True if the column contains numbers."""
        return self.number_R is not None

    @property
    def missing_R(self) -> npt.NDArray[np.bool_]:  # noqa: N802  # a shape suffix
        """The rows without a value."""
        if self.number_R is not None:
            return np.isnan(self.number_R)
        assert self.code_R is not None
        return self.code_R < 0

    @property
    def known_R(self) -> npt.NDArray[np.float64]:  # noqa: N802  # a shape suffix
        """The finite numbers of the column; shape (rows with a finite number,)."""
        assert self.number_R is not None
        return self.number_R[np.isfinite(self.number_R)]

    @property
    def is_whole(self) -> bool:
        """True if all numbers of the column are whole numbers."""
        return self.is_number and bool((self.known_R == np.round(self.known_R)).all())

    def distinct(self) -> int:
        """Return the number of distinct values that are not missing."""
        return self._distinct

    @functools.cached_property
    def _distinct(self) -> int:
        return len(np.unique(self.known_R)) if self.is_number else len(self.levels)


def _levels(values_R: Array) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Return the distinct texts, the most frequent first, and the index of each row's text."""
    missing_R = np.array([v is None or v != v or str(v) in ("<NA>", "NaT") for v in values_R])
    texts_R = np.array(
        ["" if gone else str(v) for v, gone in zip(values_R, missing_R, strict=True)]
    )
    names, code_R, counts = np.unique(texts_R[~missing_R], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found_R = np.full(len(values_R), -1, np.int64)
    found_R[~missing_R] = rank[code_R]
    return tuple(names[order].tolist()), found_R


class Table:
    """Rows for a model, in the container that the model expects.

    Args:
        data: a pandas or polars data frame, an array whose first axis is the rows, or a mapping
            of columns. Arrays with more than two axes have no columns.
        names: Column names of an array; by default `x0`, `x1` ...
        about: Further columns that the model does not receive, such as metadata of images.
    """

    def __init__(self, data: Any, names: Sequence[str] = (), about: Any = None) -> None:
        self.data: Any = data if _has_columns(data) else np.asarray(data)
        self._given_names = tuple(names)
        self.names = self._names()
        self.about = (
            None if about is None else (about if isinstance(about, Table) else Table(about))
        )

    @functools.cached_property
    def _columns(self) -> dict[str, Column]:
        return {str(n): Column(str(n), self._values(i, n)) for i, n in self._keys()}

    def __len__(self) -> int:
        if isinstance(self.data, Mapping):
            return len(next(iter(self.data.values()), ()))
        return len(self.data)

    @property
    def is_named(self) -> bool:
        """True if the container has column names."""
        return _has_columns(self.data)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the model receives."""
        return tuple(self._columns.values())

    @property
    def searched(self) -> tuple[Column, ...]:
        """Columns in which segments are searched, including those hidden from the model."""
        return self.columns + (self.about.columns if self.about is not None else ())

    def column(self, name: str) -> Column:
        """Return a column that the model receives; a KeyError lists the existing columns."""
        if name not in self._columns:
            raise KeyError(f"no column {name!r}; there are: {', '.join(self._columns)}")
        return self._columns[name]

    def take(self, rows: Any) -> Table:
        """Return selected rows in the given order; `rows` are indices or a mask."""
        rows = np.asarray(rows)
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        if isinstance(self.data, Mapping):
            data: Any = {k: np.asarray(v)[at] for k, v in self.data.items()}
        elif hasattr(self.data, "iloc"):
            data = self.data.iloc[at]
        else:
            data = self.data[at]
        return Table(data, self._given_names, None if self.about is None else self.about.take(at))

    def for_model(self) -> Any:
        """Return a copy of the rows, because a model may modify its input."""
        if isinstance(self.data, Mapping):
            return {name: np.array(values) for name, values in self.data.items()}
        return self.data.copy() if hasattr(self.data, "copy") else copy.copy(self.data)

    def replaced(self, values: Mapping[str, Any]) -> Table:
        """Return the same rows with some columns replaced.

        Args:
            values: new values by name of the column: one for all rows, or one per row. Numbers
                are converted to the type of the column where they can be represented in it.
        """
        new = {name: self._fitting(name, value) for name, value in values.items()}
        if isinstance(self.data, Mapping):
            data: Any = {k: new.get(str(k), v) for k, v in self.data.items()}
        elif hasattr(self.data, "iloc"):
            data = self.data.assign()
            for key in self.data.columns:
                if str(key) in new:
                    data[key] = new[str(key)]
        elif hasattr(self.data, "with_columns"):
            series = type(self.data[self.data.columns[0]])
            data = self.data.with_columns(*(series(k, v.tolist()) for k, v in new.items()))
        else:
            kind = np.result_type(self.data.dtype, *(v.dtype for v in new.values()))
            data = self.data.astype(kind if kind != self.data.dtype else self.data.dtype)
            for name, value_R in new.items():
                data[:, self.names.index(name)] = value_R
        return Table(data, self._given_names, self.about)

    def reordered(self) -> Table:
        """Return the same rows with the columns in the reverse order, under their own names."""
        if isinstance(self.data, Mapping):
            return Table(dict(reversed(list(self.data.items()))))
        return Table(self.data[list(reversed(list(self.data.columns)))])

    def _fitting(self, name: str, value: Any) -> Array:
        """Return values as an array of the column's type if no precision is lost."""
        own = np.asarray(self.column(name).given_R)
        value_R = np.broadcast_to(np.asarray(value), len(self)).copy()
        if own.dtype.kind in "biuf" and value_R.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                same = value_R.astype(own.dtype)
            if own.dtype.kind == "f" or bool((same == value_R).all()):
                return same
        return value_R

    def _keys(self) -> Sequence[tuple[int, Any]]:
        if isinstance(self.data, Mapping):
            return list(enumerate(self.data))
        if self.is_named:
            return list(enumerate(self.data.columns))
        return list(enumerate(self.names))

    def _names(self) -> tuple[str, ...]:
        if isinstance(self.data, Mapping):
            return tuple(map(str, self.data))
        if self.is_named:
            return tuple(map(str, self.data.columns))
        if self.data.ndim == 2:
            return self._given_names or tuple(f"x{i}" for i in range(self.data.shape[1]))
        return () if self.data.ndim > 2 else ("x0",)

    def _values(self, place: int, key: Any) -> Any:
        if self.is_named:
            return self.data[key]
        return self.data[:, place] if self.data.ndim == 2 else self.data


def _has_columns(data: Any) -> bool:
    return isinstance(data, Mapping) or hasattr(data, "columns")
