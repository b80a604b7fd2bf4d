"""Numbers of all workers, merged as if one worker had computed them.

Statistics are merged from sufficient statistics, so they are correct for the whole tensor,
regardless of its shards. Rows are combined as follows:

- pieces of a tensor (`shard 1/2 of dim 0`) are merged if all of them exist;
- a replica, and a parameter or gradient without a scope, is the same on all workers, so the value
  of the lowest rank is used (the rule `ranks_diverge` reports differences);
- everything else is each worker's own part of the batch, and is merged if every worker with such a
  tensor in the attempt has captured it.

Shape suffixes: N = rows, G = groups of rows that become one, S = records, F = fields.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from mothtrap.core.kinds import kind_of
from mothtrap.core.scopes import parse_scope
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Floats, Ints, Matrix
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.files.parts import Part, Span
from mothtrap.reader.files.worker_view import ScalarName
from mothtrap.reader.series.matrices import captured
from mothtrap.reader.series.run_series import RunSeries
from mothtrap.reader.series.worker_series import SummaryRows, scalar_series, summary_rows
from mothtrap.statistics.summary import WIDTH, derive, merge_segments

Merged = Literal["merged"]
MERGED: Merged = "merged"

LARGEST = ("step_s", "own_s")
"""Scalars whose largest value is the value of the job, because the other workers wait for it."""
SAME = (
    "lr",
    "gradient_norm",
    "gradient_state",
    "stale_gradient",
    "loss_scale",
    "skipped",
    "micro_batches",
)
"""Scalars of the whole job, which are the same on every worker."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of all workers, each with the piece that it describes.

    Attributes:
        moment_N: index of (step, mode_step), ascending in time.
        column_N: index of the tensor.
        piece_N: index of the piece; -1 if it cannot be merged.
        pieces_N: number of pieces of the whole.
        worker_N: rank of the worker.
        summary_NF: rows of statistics.
    """

    moment_N: Ints
    column_N: Ints
    piece_N: Ints
    pieces_N: Ints
    worker_N: Ints
    summary_NF: Floats


def merged_matrices(
    span: Span,
    kind: str,
    chosen: Callable[[TensorInfo], bool],
    statistics: Sequence[str],
    mode: ModeName,
) -> dict[str, Matrix]:
    """Return statistics of whole tensors over the records of a mode.

    Args:
        span: all workers.
        kind: kind of the tensors.
        chosen: choice of tensors.
        statistics: ids.
        mode: mode of the records.

    Returns:
        A matrix for each statistic; a tensor is present if all its pieces are.
    """
    tensors: dict[str, TensorInfo] = {}
    attempts = span.by_attempt()
    for parts in attempts:
        for part in parts.values():
            for info in part.view.tensors.values():
                if info.kind == kind and chosen(info):
                    tensors.setdefault(info.identity, _whole(info))
    column_of = {identity: column for column, identity in enumerate(tensors)}
    found = [
        (worker, rows)
        for parts in attempts
        for worker, part in parts.items()
        for rows in summary_rows([part], lambda i: i.identity in column_of, mode)
    ]
    moments = _Moments([rows for _, rows in found])
    rows = _gather(found, moments, column_of, _holders(attempts))
    moment_G, column_G, summary_GF = _merge(rows)
    return {
        s: _matrix(
            kind, s, Mode(mode), tuple(tensors.values()), moments, moment_G, column_G, summary_GF
        )
        for s in statistics
    }


def merged_scalars(span: Span, chosen: Callable[[ScalarName], bool]) -> tuple[RunSeries, ...]:
    """Return scalars of the job, averaging losses and logged numbers over workers.

    Times are the times of the slowest worker. Scalars that are the same on all workers are taken
    from the lowest rank. A step has a value if every worker with the scalar has one.
    """
    found: dict[ScalarName, list[RunSeries]] = {}
    for parts in span.by_attempt():
        several: dict[ScalarName, list[RunSeries]] = {}
        for part in parts.values():
            for series in scalar_series([part], chosen):
                several.setdefault((series.name, series.of, series.mode), []).append(series)
        for name, of_workers in several.items():
            found.setdefault(name, []).append(_join(of_workers))
    return tuple(_chain(of_attempts) for of_attempts in found.values())


def _chain(of_attempts: Sequence[RunSeries]) -> RunSeries:
    """Concatenate the series of consecutive attempts."""
    values_S = np.concatenate([series.values_S for series in of_attempts])
    return dataclasses.replace(
        of_attempts[-1],
        steps_S=np.concatenate([series.steps_S for series in of_attempts]),
        values_S=values_S,
        total=len(values_S),
        first=float(values_S[0]) if len(values_S) else math.nan,
    )


def _join(several: Sequence[RunSeries]) -> RunSeries:
    """Merge the series of the workers of an attempt."""
    first = several[0]
    if len(several) == 1:
        return first
    places = [{place: row for row, place in enumerate(_places(s.steps_S))} for s in several]
    shared = [place for place in places[0] if all(place in other for other in places)]
    value_WS = np.array(
        [
            series.values_S[[rows[place] for place in shared]]
            for series, rows in zip(several, places, strict=True)
        ]
    )
    if first.name in SAME:
        values_S = value_WS[0]
    elif first.name in LARGEST:
        values_S = value_WS.max(axis=0)
    else:
        values_S = value_WS.mean(axis=0)
    steps_S = np.array([step for step, _ in shared], np.int64)
    return dataclasses.replace(first, steps_S=steps_S, values_S=values_S)


def _places(steps_S: Ints) -> Iterator[tuple[int, int]]:
    """Return each value's step, and the number of earlier values of that step."""
    before: dict[int, int] = {}
    for step in steps_S.tolist():
        count = before[step] = before.get(step, -1) + 1
        yield step, count


class _Moments:
    """The records of all workers, by step and step of the mode."""

    def __init__(self, found: Sequence[SummaryRows]) -> None:
        keys = [_keys(rows) for rows in found]
        every = np.concatenate(keys) if keys else np.empty((0, 2), np.int64)
        self.keys_M2, first = np.unique(every, axis=0, return_index=True)
        skipped = [rows.part.view.commits.skipped[rows.commit_N] for rows in found]
        flat = np.concatenate(skipped) if skipped else np.empty(0, np.bool_)
        self.skipped_M = flat[first]

    def of(self, rows: SummaryRows) -> Ints:
        """Return the index of the moment of each row."""
        joined = np.concatenate((self.keys_M2, _keys(rows)))
        _, inverse = np.unique(joined, axis=0, return_inverse=True)
        found: Ints = inverse.reshape(-1)[len(self.keys_M2) :]
        return found


def _keys(rows: SummaryRows) -> Ints:
    commits = rows.part.view.commits
    pairs = (commits.steps[rows.commit_N], commits.mode_steps[rows.commit_N])
    return np.stack(pairs, axis=1).astype(np.int64)


def _holders(attempts: Sequence[Mapping[int, Part]]) -> dict[tuple[int, str], list[int]]:
    """Return, by attempt and tensor, the workers that have it, ascending."""
    found: dict[tuple[int, str], list[int]] = {}
    for parts in attempts:
        for worker, part in parts.items():
            for identity in {info.identity for info in part.view.tensors.values()}:
                found.setdefault((part.attempt, identity), []).append(worker)
    return found


def _gather(
    found: Sequence[tuple[int, SummaryRows]],
    moments: _Moments,
    column_of: dict[str, int],
    holders: dict[tuple[int, str], list[int]],
) -> _Rows:
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    summaries = [np.empty((0, WIDTH))]
    for worker, rows in found:
        ids, inverse_N = np.unique(rows.tensor_N, return_inverse=True)
        infos = [rows.part.view.tensors[number] for number in ids.tolist()]
        pieces = [_piece(i, worker, holders[rows.part.attempt, i.identity]) for i in infos]
        column_N = np.array([column_of[i.identity] for i in infos], np.int64)[inverse_N]
        piece_N2 = np.array(pieces, np.int64).reshape(-1, 2)[inverse_N]
        worker_N = np.full(len(column_N), worker, np.int64)
        columns.append((moments.of(rows), column_N, piece_N2[:, 0], piece_N2[:, 1], worker_N))
        summaries.append(rows.summaries())
    none = (np.empty(0, np.int64),) * 5
    moment_N, column_N, piece_N, pieces_N, worker_N = (
        np.concatenate(parts) for parts in zip(none, *columns, strict=True)
    )
    return _Rows(moment_N, column_N, piece_N, pieces_N, worker_N, np.concatenate(summaries))


def _piece(info: TensorInfo, worker: int, holders: list[int]) -> tuple[int, int]:
    """Return a worker's piece of the whole, and the number of pieces; -1: not mergeable."""
    scope = parse_scope(info.scope)
    if not scope.mergeable:
        return -1, 1
    if scope.shards:
        place = 0
        for shard in scope.shards:
            place = place * shard.count + shard.index - 1
        return place, scope.pieces
    if scope.replicated or kind_of(info.kind).merges:
        return 0, 1
    return holders.index(worker), len(holders)


def workers_of_whole(infos: Mapping[int, TensorInfo], holders: list[int]) -> list[int]:
    """Return the workers whose parts together form the whole tensor.

    Args:
        infos: descriptions of the tensor by the workers that captured it, by rank.
        holders: all workers that have the tensor, ascending.

    Returns:
        Among workers with equal parts, only the lowest rank; empty if a part is missing or cannot
        be merged.
    """
    by_piece: dict[int, int] = {}
    pieces = 0
    for worker in sorted(infos):
        place, pieces = _piece(infos[worker], worker, holders)
        by_piece.setdefault(place, worker)
    return [] if -1 in by_piece or len(by_piece) != pieces else [*by_piece.values()]


def _merge(rows: _Rows) -> tuple[Ints, Ints, Floats]:
    """Merge the rows of each moment and tensor; returns moments, columns and summaries."""
    order = np.lexsort((rows.worker_N, rows.piece_N, rows.column_N, rows.moment_N))
    order = order[rows.piece_N[order] >= 0]
    key_N3 = np.stack((rows.moment_N, rows.column_N, rows.piece_N), axis=1)[order]
    fresh_N = np.any(np.diff(key_N3, axis=0, prepend=-1) != 0, axis=1)
    # of equal pieces, use the one of the lowest worker
    order, key_N3 = order[fresh_N], key_N3[fresh_N]
    starts_G = np.flatnonzero(np.any(np.diff(key_N3[:, :2], axis=0, prepend=-1) != 0, axis=1))
    if not len(starts_G):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, WIDTH))
    lengths_G = np.diff(starts_G, append=len(order))
    whole_G = lengths_G == rows.pieces_N[order[starts_G]]
    merged_GF = merge_segments(rows.summary_NF[order], starts_G)
    firsts = order[starts_G[whole_G]]
    return rows.moment_N[firsts], rows.column_N[firsts], merged_GF[whole_G]


def _matrix(
    kind: str,
    statistic: str,
    mode: Mode,
    tensors: tuple[TensorInfo, ...],
    moments: _Moments,
    moment_G: Ints,
    column_G: Ints,
    summary_GF: Floats,
) -> Matrix:
    value_G = derive(summary_GF, statistic)
    present_G = captured(summary_GF, statistic, value_G)
    shown, row_G = np.unique(moment_G[present_G], return_inverse=True)
    tensors = tensors if len(shown) else ()
    values_ST = np.full((len(shown), len(tensors)), np.nan)
    present_ST = np.zeros((len(shown), len(tensors)), np.bool_)
    if len(shown):
        values_ST[row_G, column_G[present_G]] = value_G[present_G]
        present_ST[row_G, column_G[present_G]] = True
    return Matrix(
        kind=kind,
        statistic=statistic,
        tensors=tensors,
        steps_S=moments.keys_M2[shown, 0],
        values_ST=values_ST,
        present_ST=present_ST,
        skipped_S=moments.skipped_M[shown],
        mode=mode,
    )


def _whole(info: TensorInfo) -> TensorInfo:
    """Describe a tensor as a whole."""
    shape = info.global_shape or info.shape
    return msgspec.structs.replace(info, scope="", global_shape=(), shape=shape)
