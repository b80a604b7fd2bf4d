"""Rows of training and evaluation tables, sampled when a table is created.

Shape suffixes: R = rows, C = columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics import numpy as arithmetic
from mothtrap.tracing.jobs.identity import ByIdentity

MAX_CELLS: Final = 1 << 22
"""Maximum number of inspected cells of a table, in evenly spaced rows: about 50 ms, once."""
KEPT_ROWS: Final = 2048
KEPT_CELLS: Final = 1 << 20
"""Maximum number of stored cells and rows of a table for the analysis of its columns: 4 MB at most.
"""
MAX_SPARSE_COLUMNS: Final = 1000
UNIQUE: Final = 0.999
"""Share of rows with a distinct value that makes a column a candidate for an identifier."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows of a table in the form that a library uses.

    `digest_R` contains the digest of each sampled row; `spread_C` is True for each column with at
    least two values. `kept_RC` are some of the sampled rows, with the row numbers `rows_R`.
    `identifiers` are columns of distinct whole numbers that cover most of their range. `names` are
    the columns of a frame, otherwise empty.
    """

    digest_R: npt.NDArray[np.uint64]
    spread_C: npt.NDArray[np.bool_]
    kept_RC: Floats
    rows_R: npt.NDArray[np.int64]
    identifiers: tuple[int, ...]
    names: tuple[str, ...] = ()


class Samples:
    """Samples of tables, by the library's table object.

    Args:
        read: returns the values of a table that was not sampled when it was created, or None.
    """

    def __init__(self, read: Callable[[Any], npt.NDArray[Any] | None] = lambda _: None) -> None:
        self._read = read
        self._samples: ByIdentity[Any, Sample | None] = ByIdentity()

    def made(self, table: object, data: Any, *, missing: float = np.nan) -> None:
        """Sample the data of a newly created table, without keeping a reference.

        Args:
            table: the library's object.
            data: array, frame, sparse matrix or list of rows.
            missing: value that the library treats as missing.
        """
        if data is not None:
            self._samples[table] = sample_of(data, missing=missing)

    def of(self, table: object) -> Sample | None:
        """Return the sample of a table, reading it now if it was created before observation."""
        if table not in self._samples:
            values = self._read(table)
            self._samples[table] = None if values is None else sample_of(values)
        return self._samples.get(table)


def sample_of(data: Any, *, missing: float = np.nan) -> Sample | None:
    """Sample rows of an array, frame, sparse matrix or list; None for other types."""
    if isinstance(data, list) and data:
        data = np.asarray(data)
    shape = getattr(data, "shape", None)
    if shape is None or len(shape) != 2 or not all(shape):
        return None
    rows, columns = int(shape[0]), int(shape[1])
    every = max(1, -(-rows * columns // MAX_CELLS))
    values_RC = _values(data, every)
    if values_RC is None:
        return None
    if not np.isnan(missing):
        values_RC = np.where(values_RC == missing, np.nan, values_RC)
    names = tuple(map(str, data.columns)) if hasattr(data, "iloc") else ()
    return replace(_looked_at(values_RC, every), names=names)


def _looked_at(given_RC: npt.NDArray[Any], every: int) -> Sample:
    rows, columns = given_RC.shape
    with np.errstate(over="ignore", invalid="ignore"):
        values_RC = np.ascontiguousarray(given_RC, np.float32)
        plain_RC = np.where(np.isnan(values_RC), np.float32(np.nan), values_RC) + np.float32(0.0)
    first_C = plain_RC[:1]
    differs_RC = (plain_RC != first_C) & ~(np.isnan(plain_RC) & np.isnan(first_C))
    kept = max(1, min(KEPT_ROWS, KEPT_CELLS // columns))
    rows_R = np.unique(np.linspace(0, rows - 1, min(kept, rows)).astype(np.int64))
    return Sample(
        digest_R=arithmetic.row_digests(plain_RC, columns),
        spread_C=differs_RC.any(axis=0),
        kept_RC=plain_RC[rows_R],
        rows_R=rows_R * every,
        identifiers=_identifiers(given_RC, rows_R) if every == 1 else (),
    )


def _identifiers(values_RC: npt.NDArray[Any], rows_R: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Return columns of distinct whole numbers that fill at least a third of their range."""
    found = []
    rows, columns = values_RC.shape
    few_RC = values_RC[rows_R[:64]]
    for column in range(columns) if rows >= 100 else ():
        few_R = few_RC[:, column]
        if not np.isfinite(few_R).all() or (few_R != np.round(few_R)).any():
            continue
        if len(np.unique(few_R)) < len(few_R):
            continue
        all_R = values_RC[:, column]
        span = float(all_R.max() - all_R.min()) + 1
        whole = np.isfinite(span) and bool((all_R == np.round(all_R)).all())
        if whole and span <= 3 * rows and len(np.unique(all_R)) >= UNIQUE * rows:
            found.append(column)
    return tuple(found)


def _values(data: Any, every: int) -> npt.NDArray[Any] | None:
    if isinstance(data, np.ndarray):
        chosen: Any = data[::every]
    elif hasattr(data, "iloc"):
        chosen = np.column_stack([_numbers(data.iloc[::every, c]) for c in range(data.shape[1])])
    elif hasattr(data, "tocsr"):
        chosen = data.tocsr()[::every].toarray() if data.shape[1] <= MAX_SPARSE_COLUMNS else None
    else:
        return None
    if chosen is None or chosen.dtype.kind in "fiub":
        return chosen  # type: ignore[no-any-return]
    return np.column_stack([_codes(chosen[:, column]) for column in range(chosen.shape[1])])


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Return the values of a frame's column; numbers for categories and texts."""
    if hasattr(column, "cat"):
        codes: npt.NDArray[Any] = column.cat.codes.to_numpy()
        return codes
    values = column.to_numpy()
    return values if values.dtype.kind in "fiub" else _codes(values)


def _codes(values_R: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers for values that may not be numbers: the numbers themselves, or digests."""
    try:
        return values_R.astype(np.float64)
    except (TypeError, ValueError):
        return np.array([zlib.crc32(str(value).encode()) for value in values_R]) / 2.0**32
