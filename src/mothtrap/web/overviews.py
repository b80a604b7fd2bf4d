"""A statistic of all tensors over a whole run, in memory that does not grow with its steps.

All tensors have the same columns. A column covers `width` steps, a power of two, and contains the
offset of its first row, the extremes and the last value. When the columns are full, pairs of
columns are merged. Shape suffixes: N = rows, T = tensors, C = columns, G = groups of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints
from mothtrap.reader.files.commits import ENDLESS, mode_code
from mothtrap.reader.files.statistic_rows import StatisticRows, StatisticsPiece
from mothtrap.reader.files.worker_view import WorkerView
from mothtrap.reader.series.matrices import captured_in
from mothtrap.statistics.summary import derive_from
from mothtrap.web.buckets import INF, NAN, Buckets, Bytes, bad_bits, extremes

COLUMNS = 512
"""Of a tensor; chosen by hand: 17 bytes each, so 87 MB for 10,000 tensors."""
FIRST_TENSORS = 16
LARGEST = float(np.finfo(np.float32).max)


class Cells(NamedTuple):
    """Columns of tensors in an overview.

    Attributes:
        there_TC: whether anything was captured.
        low_TC, high_TC: float32, extremes of the finite values; NaN without finite values.
        bad_TC: uint8, bits of `web.buckets` for values that are not finite.
    """

    there_TC: Bools
    low_TC: npt.NDArray[np.float32]
    high_TC: npt.NDArray[np.float32]
    bad_TC: Bytes


class Overview:
    """One statistic of the tensors of one worker in one attempt; `follow` reads new data.

    Args:
        view: view of the worker, which is refreshed elsewhere.
        statistic: an id of `statistics.summary.STATISTICS`.
        mode: mode of the steps.
        columns: columns of each tensor, a power of two.
        begin: first step of the overview.
        end: number after the last step.
    """

    def __init__(
        self,
        view: WorkerView,
        statistic: str,
        mode: Mode = Mode.TRAIN,
        columns: int = COLUMNS,
        begin: int = 0,
        end: int = ENDLESS,
    ) -> None:
        self._view, self._statistic, self._mode = view, statistic, mode_code(mode)
        self._rows = StatisticRows(view.folder)
        self._columns = columns
        self.begin, self._end = begin, end
        self.width = 1
        self._latest = 0
        self._allocate(FIRST_TENSORS)

    def follow(self) -> None:
        """Read the rows written since the last call."""
        for piece in self._rows.poll_fields(self._view.commits):
            self._take(piece)

    def buckets(self, tensor: int, before: int) -> Buckets:
        """Return the columns of a tensor that begin before a step.

        Args:
            tensor: id in the view.
            before: first step that is excluded.
        """
        if tensor >= len(self._offset):
            tensor, before = 0, 0
        step_C = self.begin + np.arange(self._columns) * self.width + self._offset[tensor]
        chosen_C = (self._offset[tensor] >= 0) & (step_C < before)
        return Buckets(
            step_C[chosen_C],
            self._min[tensor][chosen_C].astype(np.float64),
            self._max[tensor][chosen_C].astype(np.float64),
            self._last[tensor][chosen_C].astype(np.float64),
            self._bad[tensor][chosen_C],
            self.width,
        )

    def cells(self, tensor_T: Ints, before: int) -> Cells:
        """Return the columns of several tensors that begin before a step.

        Args:
            tensor_T: ids in the view; -1 = none.
            before: first step that is excluded.
        """
        known_T = (tensor_T >= 0) & (tensor_T < len(self._offset))
        row_T = np.where(known_T, tensor_T, 0)
        used = slice(self._latest // self.width + 1)
        offset_TC = self._offset[row_T, used]
        step_C = self.begin + np.arange(offset_TC.shape[1]) * self.width
        there_TC = known_T[:, None] & (offset_TC >= 0) & (step_C + offset_TC < before)
        low_TC, high_TC = (
            np.where(there_TC, each[row_T, used], np.float32(np.nan))
            for each in (self._min, self._max)
        )
        return Cells(there_TC, low_TC, high_TC, self._bad[row_T, used] * there_TC)

    @property
    def bytes(self) -> int:
        """Memory of the columns in bytes."""
        return sum(array.nbytes for array in self._arrays())

    def _take(self, piece: StatisticsPiece) -> None:
        if not piece.fields:
            return  # of another version: no column can be trusted
        step_N, tensor_N, value_N, bad_N = rows_of(piece, self._view, self._statistic, self._mode)
        inside_N = (step_N >= self.begin) & (step_N < self._end)
        step_N, tensor_N, value_N, bad_N = (
            _where(inside_N, each) for each in (step_N - self.begin, tensor_N, value_N, bad_N)
        )
        if not len(step_N):
            return
        self._latest = max(self._latest, int(step_N.max()))
        self._make_room(int(step_N.max()), int(tensor_N.max()))
        cell_N = tensor_N * self._columns + step_N // self.width
        order_N = np.argsort(cell_N, kind="stable")
        start_G = np.flatnonzero(np.diff(cell_N[order_N], prepend=-1))
        cell_G = cell_N[order_N][start_G]
        value_N, bad_N, step_N = value_N[order_N], bad_N[order_N], step_N[order_N]
        min_G, max_G, last_G = extremes(value_N, start_G)
        offset_G = (step_N[start_G] % self.width).astype(np.int32)
        self._fold(cell_G, offset_G, (min_G, max_G, last_G))
        self._bad.reshape(-1)[cell_G] |= np.bitwise_or.reduceat(bad_N, start_G)

    def _fold(
        self,
        cell_G: Ints,
        offset_G: npt.NDArray[np.int32],
        extremes_G: tuple[Floats, Floats, Floats],
    ) -> None:
        """Merge groups of new rows, later than all previous rows, into their cells."""
        # A value beyond float32 is drawn at its edge: it is a number, and must stay one.
        min_G, max_G, last_G = (
            np.clip(each, -LARGEST, LARGEST).astype(np.float32) for each in extremes_G
        )
        offset, lowest, highest, last = (
            array.reshape(-1) for array in (self._offset, self._min, self._max, self._last)
        )
        offset[cell_G] = np.where(offset[cell_G] < 0, offset_G, offset[cell_G])
        lowest[cell_G] = np.fmin(lowest[cell_G], min_G)
        highest[cell_G] = np.fmax(highest[cell_G], max_G)
        last[cell_G] = np.where(np.isnan(last_G), last[cell_G], last_G)

    def _make_room(self, step: int, tensor: int) -> None:
        while step // self.width >= self._columns:
            self._halve()
        if tensor >= len(self._offset):
            before = self._arrays()
            self._allocate(max(2 * len(self._offset), tensor + 1))
            for old, new in zip(before, self._arrays(), strict=True):
                new[: len(old)] = old

    def _halve(self) -> None:
        """Join each two columns; the second half becomes empty."""
        half = self._columns // 2
        pairs = (len(self._offset), half, 2)
        offset, last = self._offset.reshape(pairs), self._last.reshape(pairs)
        later = np.where(offset[..., 1] >= 0, offset[..., 1] + self.width, -1)
        self._offset[:, :half] = np.where(offset[..., 0] >= 0, offset[..., 0], later)
        self.width *= 2
        self._last[:, :half] = np.where(np.isnan(last[..., 1]), last[..., 0], last[..., 1])
        self._min[:, :half] = np.fmin.reduce(self._min.reshape(pairs), axis=2)
        self._max[:, :half] = np.fmax.reduce(self._max.reshape(pairs), axis=2)
        self._bad[:, :half] = np.bitwise_or.reduce(self._bad.reshape(pairs), axis=2)
        self._offset[:, half:], self._bad[:, half:] = -1, 0
        for array in (self._min, self._max, self._last):
            array[:, half:] = np.nan

    def _allocate(self, tensors: int) -> None:
        shape = (tensors, self._columns)
        self._offset = np.full(shape, -1, np.int32)
        self._min, self._max, self._last = (np.full(shape, np.nan, np.float32) for _ in range(3))
        self._bad = np.zeros(shape, np.uint8)

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self._offset, self._min, self._max, self._last, self._bad


class ExactRows:
    """Every row of a statistic of a few tensors; `follow` reads new data.

    Args:
        view: view of a worker in an attempt.
        tensors: ids in the view.
        statistic: id.
        mode: mode of the steps.
    """

    def __init__(
        self, view: WorkerView, tensors: frozenset[int], statistic: str, mode: Mode = Mode.TRAIN
    ) -> None:
        self._view, self._statistic, self._mode = view, statistic, mode_code(mode)
        self._tensors = sorted(tensors)
        self._reader = StatisticRows(view.folder)
        self._rows = (
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty(0),
            np.empty(0, np.uint8),
        )

    def follow(self) -> None:
        """Read the rows written since the last call."""
        found = [self._rows]
        for piece in self._reader.poll_fields(self._view.commits):
            if piece.fields:
                chosen_N = np.isin(piece.tensor_N, self._tensors)
                found.append(rows_of(piece, self._view, self._statistic, self._mode, chosen_N))
        if len(found) > 1:
            step_N, tensor_N, value_N, bad_N = (
                np.concatenate(column) for column in zip(*found, strict=True)
            )
            self._rows = step_N, tensor_N, value_N, bad_N

    def rows(self, tensor: int, begin: int, end: int) -> tuple[Ints, Floats, Bytes]:
        """Return steps, values and bits of a tensor between two steps."""
        step_N, tensor_N, value_N, bad_N = self._rows
        rows = np.flatnonzero((tensor_N == tensor) & (step_N >= begin) & (step_N < end))
        return step_N[rows], value_N[rows], bad_N[rows]


def rows_of(
    piece: StatisticsPiece,
    view: WorkerView,
    statistic: str,
    mode: int,
    chosen_N: Bools | None = None,
) -> tuple[Ints, Ints, Floats, Bytes]:
    """Return step, tensor, value and bits of the rows in a piece that have a statistic.

    The bit is set for a tensor with any non-finite element, regardless of its statistic.
    """
    keep_N = view.commits.modes[piece.commit_N] == mode
    if chosen_N is not None:
        keep_N &= chosen_N

    def column(name: str) -> Floats:
        return _where(keep_N, piece.field(name))

    value_N = derive_from(column, statistic)
    present_N = captured_in(column, statistic, value_N)
    bad_N = bad_bits(value_N)
    bad_N |= (column("nan") > 0) * np.uint8(NAN)
    bad_N |= (column("inf") > 0) * np.uint8(INF)
    commit_N = _where(present_N, _where(keep_N, piece.commit_N))
    tensor_N = _where(present_N, _where(keep_N, piece.tensor_N))
    return (
        view.commits.steps[commit_N],
        tensor_N.astype(np.int64),
        _where(present_N, value_N),
        _where(present_N, bad_N),
    )


def _where(keep_N: Bools, rows_N: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the rows that are kept, usually all of them, without a copy."""
    return rows_N if keep_N.all() else rows_N[keep_N]
