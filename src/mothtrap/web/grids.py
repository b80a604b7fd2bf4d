"""A statistic of many tensors over steps; each column covers a power of two of steps.

Shape suffixes: T = tensors, C = columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Ints
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.files.parts import Part
from mothtrap.web.buckets import Bytes, width_for
from mothtrap.web.opened import OpenRun, known_worker
from mothtrap.web.overviews import Cells, Overview

MOST_COLUMNS = 1200
MOST_ROWS_READ = 4_000_000
"""Rows of statistics of a run that are read for the steps in sight; chosen by hand: a second."""

Values = npt.NDArray[np.float32]


class Grid(NamedTuple):
    """Cells of a heatmap of tensors.

    Attributes:
        begin: step of the first column, a multiple of `width`.
        width: steps of a column, a power of two.
        there_TC: whether anything was captured.
        low_TC, high_TC: extremes of the finite values; NaN without finite values.
        bad_TC: bits of `web.buckets` for values that are not finite.
        coarse: the run is too large for single steps to be read.
    """

    begin: int
    width: int
    there_TC: Bools
    low_TC: Values
    high_TC: Values
    bad_TC: Bytes
    coarse: bool

    @property
    def furthest(self) -> Values:
        """Return the extreme that is farther from 0, so that no peak is lost."""
        return np.where(np.abs(self.high_TC) >= np.abs(self.low_TC), self.high_TC, self.low_TC)


def grid(
    opened: OpenRun,
    identities: Sequence[str],
    statistic: str,
    *,
    mode: Mode = Mode.TRAIN,
    worker: int | None = None,
    begin: int = 0,
    end: int = ENDLESS,
    most: int = MOST_COLUMNS,
) -> Grid:
    """Return a statistic of tensors over steps.

    Args:
        opened: the run.
        identities: identities of the tensors.
        statistic: id.
        mode: mode of the steps.
        worker: rank; None = the lowest.
        begin: first step.
        end: number after the last step.
        most: maximum number of columns.
    """
    run = opened.run
    parts = run.parts(known_worker(run, worker)) if run.workers else []
    begin = max(begin, 0)
    whole = begin <= 0 and end >= run.steps
    small = sum(int(p.view.commits.promised("tensors").sum()) for p in parts) <= MOST_ROWS_READ
    found: list[tuple[Overview, Part]] = []
    for part in parts:
        if small:
            stop = ENDLESS if whole else min(end, max(run.steps, begin + 1))
            overview = opened.fine_overview(part.view, statistic, mode, begin, stop)
        else:
            overview = opened.overview(part.view, statistic, mode)
        found.append((overview, part))
    last = max(begin + 1, min(end, run.steps))
    most = max(2, min(most, MOST_COLUMNS))
    width = max([width_for(begin, last, most), *(each.width for each, _ in found)])
    first = begin // width
    joined = _Join(len(identities), first, -(-last // width) - first, width)
    for overview, part in found:
        before = part.redone.train if mode == Mode.TRAIN else part.redone.others
        for tensor_T in _ids(part, identities):
            joined.add(overview.begin, overview.width, overview.cells(tensor_T, before))
    return Grid(first * width, width, *joined.cells, coarse=not small and not whole and width > 1)


def ratio(first: Grid, second: Grid) -> Grid:
    """Return the sizes in one run divided by the sizes in another, for the same tensors and steps.

    The ratio is missing if a size is missing, or if only the second size is 0.
    """
    width = max(first.width, second.width)
    begin = min(first.begin, second.begin) // width
    columns = 1 + max(
        (each.begin + (each.there_TC.shape[1] - 1) * each.width) // width - begin
        for each in (first, second)
    )
    both = []
    for each in (first, second):
        joined = _Join(len(each.there_TC), begin, columns, width)
        joined.add(each.begin, each.width, Cells(*each[2:6]))
        both.append(Grid(begin * width, width, *joined.cells, coarse=each.coarse))
    mine, other = (np.abs(each.furthest) for each in both)
    with np.errstate(divide="ignore", invalid="ignore"):
        value_TC = np.where((mine == 0) & (other == 0), np.float32(1), mine / other)
    value_TC[~np.isfinite(value_TC)] = np.nan
    there_TC = both[0].there_TC & both[1].there_TC
    value_TC[~there_TC] = np.nan
    bad_TC = (both[0].bad_TC | both[1].bad_TC) * there_TC
    coarse = first.coarse or second.coarse
    return Grid(begin * width, width, there_TC, value_TC, value_TC, bad_TC, coarse)


class _Join:
    """Cells of all attempts, in common columns."""

    def __init__(self, tensors: int, first: int, columns: int, width: int) -> None:
        shape = (tensors, columns)
        self.cells = Cells(
            np.zeros(shape, np.bool_),
            np.full(shape, np.nan, np.float32),
            np.full(shape, np.nan, np.float32),
            np.zeros(shape, np.uint8),
        )
        self._first, self._columns, self._width = first, columns, width

    def add(self, begin: int, width: int, cells: Cells) -> None:
        """Join cells whose first column begins at a step, and whose columns are no wider."""
        share = self._width // width
        skipped = begin // width % share  # columns of the first one that lack
        into_C = (skipped + np.arange(cells.there_TC.shape[1])) // share
        start_G = np.flatnonzero(np.diff(into_C, prepend=-1))
        arrays: tuple[npt.NDArray[Any], ...] = cells
        there, low, high, bad = (
            how.reduceat(each, start_G, axis=1)
            for how, each in zip(
                (np.logical_or, np.fmin, np.fmax, np.bitwise_or), arrays, strict=True
            )
        )
        column_G = begin // self._width + into_C[start_G] - self._first
        inside_G = (column_G >= 0) & (column_G < self._columns)
        place = column_G[inside_G]
        mine = self.cells
        mine.there_TC[:, place] |= there[:, inside_G]
        mine.low_TC[:, place] = np.fmin(mine.low_TC[:, place], low[:, inside_G])
        mine.high_TC[:, place] = np.fmax(mine.high_TC[:, place], high[:, inside_G])
        mine.bad_TC[:, place] |= bad[:, inside_G]


def _ids(part: Part, identities: Sequence[str]) -> list[Ints]:
    """Return the ids of tensors in a part; a redefined tensor has several."""
    every = [part.view.ids(identity) for identity in identities]
    return [
        np.array([ids[place] if place < len(ids) else -1 for ids in every], np.int64)
        for place in range(max(map(len, every), default=0))
    ]
