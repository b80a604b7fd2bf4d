"""Scalars and statistics of one worker, as series and matrices.

Shape suffixes: N = rows, S = records, T = tensors, F = fields of a summary row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Bools, Floats, Ints, Matrix
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.files.parts import Part
from mothtrap.reader.files.statistic_rows import StatisticsPiece
from mothtrap.reader.files.worker_view import ScalarName
from mothtrap.reader.series.matrices import captured_in
from mothtrap.reader.series.run_series import RunSeries
from mothtrap.reader.series.unwatched import with_unwatched
from mothtrap.statistics.summary import derive_from


@dataclass(frozen=True, slots=True, eq=False)
class SummaryRows:
    """Rows of statistics of some tensors, in order of writing.

    Attributes:
        part: part of the run that they come from.
        piece: rows from which they are selected.
        rows: positions in the piece, ascending; None: all of it.
        commit_N: rows of the part's `Commits`.
        tensor_N: int64, ids of tensors.
    """

    part: Part
    piece: StatisticsPiece
    rows: Ints | None
    commit_N: Ints
    tensor_N: Ints

    def summaries(self) -> Floats:
        """Return rows of `statistics.summary.FIELDS`, float64, shape (N, F)."""
        return self.piece.summary(slice(None) if self.rows is None else self.rows)

    def derived(self, statistic: str) -> tuple[Floats, Bools]:
        """Return the values of a statistic, and a mask of the rows that have it, shape (N,)."""

        def column(name: str) -> Floats:
            return self.piece.field(name, self.rows)

        value_N = derive_from(column, statistic)
        return value_N, captured_in(column, statistic, value_N)


def summary_rows(
    parts: Sequence[Part], chosen: Callable[[TensorInfo], bool], mode: ModeName | None
) -> Iterator[SummaryRows]:
    """Yield the rows of statistics of some tensors, piece by piece.

    Args:
        parts: parts of one worker.
        chosen: choice of tensors.
        mode: mode of the records; None means all modes.
    """
    for part in parts:
        ids = [number for number, info in part.view.tensors.items() if chosen(info)]
        if not ids:
            continue
        # One more entry than ids, for all tensors that were not requested.
        asked = np.zeros(max(ids) + 2, np.bool_)
        asked[ids] = True
        for piece in part.view.statistics():
            tensor_N = piece.tensor_N
            if not piece.fields:  # from another version
                continue
            if len(ids) == 1:
                keep_N = tensor_N == ids[0]
            else:
                keep_N = asked[np.minimum(tensor_N, len(asked) - 1)]
            found = rows_where(part, piece, keep_N, mode)
            if found is not None:
                yield found


def rows_where(
    part: Part, piece: StatisticsPiece, keep_N: Bools, mode: ModeName | None
) -> SummaryRows | None:
    """Return the requested rows of a piece that count; None if there are none."""
    rows: Ints = np.flatnonzero(keep_N)
    commit_N = piece.commit_N[rows]
    counts_N = part.counts(commit_N, mode)
    if not counts_N.all():
        rows, commit_N = rows[counts_N], commit_N[counts_N]
    if not len(rows):
        return None
    tensor_N = piece.tensor_N[rows].astype(np.int64)
    return SummaryRows(part, piece, rows if len(rows) < len(keep_N) else None, commit_N, tensor_N)


def statistic_series(
    parts: Sequence[Part], info: TensorInfo, statistic: str, mode: ModeName | None
) -> RunSeries:
    """Return one statistic of one tensor over all records that have it.

    Args:
        parts: parts of one worker.
        info: the tensor.
        statistic: id.
        mode: mode of the records; None means all modes, and the series then has the mode `train`.
    """
    steps, values = [np.empty(0, np.int64)], [np.empty(0)]
    identity = info.identity
    for rows in summary_rows(parts, lambda other: other.identity == identity, mode):
        value_N, present_N = rows.derived(statistic)
        steps.append(rows.part.view.commits.steps[rows.commit_N[present_N]])
        values.append(value_N[present_N])
    steps_S, values_S = np.concatenate(steps), np.concatenate(values)
    return RunSeries(
        name=statistic,
        of=identity,
        mode=Mode(mode) if mode else Mode.TRAIN,
        steps_S=steps_S,
        values_S=values_S,
        location=info.location,
        total=len(steps_S),
        first=float(values_S[0]) if len(values_S) else math.nan,
    )


def statistic_matrices(
    parts: Sequence[Part],
    kind: str,
    chosen: Callable[[TensorInfo], bool],
    statistics: Sequence[str],
    mode: ModeName,
) -> dict[str, Matrix]:
    """Return statistics of tensors of one kind over the records of a mode.

    A matrix has a row for each record at which any of the tensors has a value, and a
    column for each tensor that was ever defined.

    Args:
        parts: parts of one worker.
        kind: kind of the tensors.
        chosen: choice of tensors.
        statistics: ids.
        mode: mode of the records.
    """
    tensors: dict[str, TensorInfo] = {}
    for part in parts:
        found = (i for i in part.view.tensors.values() if i.kind == kind and chosen(i))
        tensors |= {info.identity: info for info in found}
    column_of = {identity: column for column, identity in enumerate(tensors)}
    rows = list(summary_rows(parts, lambda info: info.identity in column_of, mode))
    shown = tuple(tensors.values())
    return {s: _matrix(kind, s, Mode(mode), shown, column_of, rows) for s in statistics}


def _matrix(
    kind: str,
    statistic: str,
    mode: Mode,
    tensors: tuple[TensorInfo, ...],
    column_of: dict[str, int],
    found: Sequence[SummaryRows],
) -> Matrix:
    steps, skipped, cells = [np.empty(0, np.int64)], [np.empty(0, np.bool_)], []
    records = 0
    for rows in found:
        value_N, present_N = rows.derived(statistic)
        commit_N = rows.commit_N[present_N]
        begins_N = np.diff(commit_N, prepend=-1) != 0
        row_N = records + np.cumsum(begins_N) - 1
        commits = rows.part.view.commits
        steps.append(commits.steps[commit_N[begins_N]])
        skipped.append(commits.skipped[commit_N[begins_N]])
        column_N = _columns(rows, column_of)[present_N]
        cells.append((row_N, column_N, value_N[present_N]))
        records += len(steps[-1])
    tensors = tensors if records else ()
    values_ST = np.full((records, len(tensors)), np.nan)
    present_ST = np.zeros((records, len(tensors)), np.bool_)
    for row_N, column_N, value_N in cells:
        values_ST[row_N, column_N] = value_N
        present_ST[row_N, column_N] = True
    return Matrix(
        kind=kind,
        statistic=statistic,
        tensors=tensors,
        steps_S=np.concatenate(steps),
        values_ST=values_ST,
        present_ST=present_ST,
        skipped_S=np.concatenate(skipped),
        mode=mode,
    )


def _columns(rows: SummaryRows, column_of: dict[str, int]) -> npt.NDArray[np.intp]:
    """Return the column of each row's tensor."""
    infos = rows.part.view.tensors
    column_of_id = np.zeros(int(rows.tensor_N.max()) + 1, np.intp)
    for number in np.flatnonzero(np.bincount(rows.tensor_N)).tolist():
        column_of_id[number] = column_of[infos[number].identity]
    columns: npt.NDArray[np.intp] = column_of_id[rows.tensor_N]
    return columns


def scalar_series(
    parts: Sequence[Part], chosen: Callable[[ScalarName], bool]
) -> tuple[RunSeries, ...]:
    """Return scalars of one worker, in order of first use.

    Args:
        parts: parts of one worker.
        chosen: choice by name, owner and mode.
    """
    found: dict[ScalarName, list[tuple[Ints, Floats]]] = {}
    for part in parts:
        for name, column in part.view.scalars().items():
            if chosen(name):
                commit_N = column.commits.view()
                keep_N = part.counts(commit_N)
                steps_S = part.view.commits.steps[commit_N[keep_N]]
                rows = with_unwatched(part, name, steps_S, column.values.view()[keep_N])
                found.setdefault(name, []).append(rows)
    return tuple(_scalar(name, pairs, parts) for name, pairs in found.items())


def _scalar(
    name: ScalarName, pairs: Sequence[tuple[Ints, Floats]], parts: Sequence[Part]
) -> RunSeries:
    values_S = np.concatenate([values for _, values in pairs])
    known = [part.view.loss_series.get(name[1]) for part in parts] if name[0] == "loss" else []
    about = next((series for series in reversed(known) if series), None)
    return RunSeries(
        name=name[0],
        of=name[1],
        mode=name[2],
        steps_S=np.concatenate([steps for steps, _ in pairs]),
        values_S=values_S,
        location=about.location if about else None,
        optimizers=about.optimizers if about else (),
        total=len(values_S),
        first=float(values_S[0]) if len(values_S) else math.nan,
    )
