"""Stored copies of tensors and rows of statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.steps import StepKey
from mothtrap.reader.files.committed_rows import Piece, RowsT, piece_of
from mothtrap.reader.files.parts import Part
from mothtrap.reader.files.raw_rows import index_row
from mothtrap.reader.series.matrices import captured
from mothtrap.statistics.dtypes import array_of
from mothtrap.statistics.exponents import Counts, count_exponents
from mothtrap.statistics.numpy import summarize
from mothtrap.statistics.summary import STATISTICS, derive, merge
from mothtrap.store.raw_reading import RawRow, fetch_ahead, read_bytes

Array = npt.NDArray[Any]
Place = tuple[Part, int, Piece, int]
"""Location of a tensor's copy: record and row."""
AHEAD = 64
"""Number of copies that are requested at a time, so that a disk does not handle them one by one;
chosen by hand.
"""


def rows_of(pieces: Sequence[RowsT], commit: int, ids: Sequence[int]) -> list[tuple[RowsT, int]]:
    """Return the rows of a tensor in one record, with their location."""
    piece = piece_of(pieces, commit)
    if piece is None:
        return []
    place = piece.rows_of(commit)
    found = np.flatnonzero(belong(piece.column("tensor")[place], ids))
    return [(piece, place.start + row) for row in found.tolist()]


def belong(id_N: Array, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a mask of the ids that belong to a tensor; most tensors have one id."""
    found: npt.NDArray[np.bool_] = id_N == ids[0] if len(ids) == 1 else np.isin(id_N, ids)
    return found


def raw_row(part: Part, commit: int, piece: Piece, row: int) -> RawRow:
    """Return the full index entry of a copy."""
    return index_row(part.view, commit, piece, row)


def load_each(places: Sequence[Place]) -> Iterator[tuple[StepKey, Array]]:
    """Read the values of several copies, prefetching short copies.

    Raises:
        DamagedDataError: as for `load`, when the copy is read.
    """
    for start in range(0, len(places), AHEAD):
        rows = [(place[0].view.folder, raw_row(*place)) for place in places[start:][:AHEAD]]
        fetch_ahead(rows)
        for folder, row in rows:
            yield row.key, _values(folder, row)


def load(part: Part, commit: int, piece: Piece, row: int) -> Array:
    """Read the values of a copy.

    Raises:
        DamagedDataError: the stored bytes were changed.
    """
    return _values(part.view.folder, raw_row(part, commit, piece, row))


def _values(folder: Path, row: RawRow) -> Array:
    return array_of(read_bytes(folder, row), row.dtype).reshape(row.shape)


def bytes_of(places: Sequence[Place]) -> int:
    """Return the total size of some copies in bytes."""
    return sum(int(piece.column("size")[row]) for _, _, piece, row in places)


def summary_of(copies: Sequence[Place], statistics: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return statistics of stored values, combined over several copies; float64, shape (1, F)."""
    rows = [summarize([load(*place)], statistics) for place in copies]
    return rows[0] if len(rows) == 1 else merge(np.concatenate(rows))[None]


def derived(summary_1F: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the captured statistics of a row, float64, shape (1, F)."""
    found = {}
    for statistic in STATISTICS:
        value = derive(summary_1F, statistic)
        if captured(summary_1F, statistic, value)[0]:
            found[statistic] = float(value[0])
    return found


def counts_of(copies: Sequence[Place]) -> Counts:
    """Return counts by power of two of stored values, combined over several copies."""
    counts: Counts = np.sum([count_exponents(load(*place)) for place in copies], axis=0)
    return counts
