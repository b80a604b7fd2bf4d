"""The table `stats` for queries: only the requested columns and rows are created.

A query engine passes the requested columns and a filter. Conditions on steps and tensors are
evaluated once for each step and each tensor, and only rows that may pass are created. Shape
suffixes: N = rows, C = committed records, T = ids of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from mothtrap.core.window import Bools
from mothtrap.reader import row_columns
from mothtrap.reader.files.parts import Part, Span
from mothtrap.reader.row_columns import STATS, TENSOR, WHEN, Columns
from mothtrap.reader.series.worker_series import SummaryRows, rows_where

BATCH_ROWS = 1 << 17
"""Number of rows that are created at a time; chosen by hand."""
_OF_NULLS = ("is_null", "is_valid", "if_else", "coalesce")
"""Functions of an expression that do not return null for null."""


class StatisticsScan(ds.Dataset):  # type: ignore[misc]
    """Statistics of all workers of a run, or of a part of it, as an Arrow dataset.

    Engines recognize such a dataset by its class, and read it through `schema` and `scanner`.
    """

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def schema(self) -> pa.Schema:
        """Schema of the table."""
        return STATS

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as in Arrow's own
        **_: object,
    ) -> ds.Scanner:
        """Return a reader of selected columns of the rows that pass a filter."""
        wanted = STATS.names if columns is None else list(columns)
        told = _named(filter)
        # Without any column, Arrow would not know the number of rows.
        made = [name for name in STATS.names if name in {*wanted, *told}] or ["step"]
        schema = pa.schema([STATS.field(name) for name in made])
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(schema, filter, told))
        one_sided = told <= WHEN.keys() or told <= TENSOR.keys()  # no other filter is left to apply
        return ds.Scanner.from_batches(
            reader, columns=wanted, filter=None if one_sided else filter, use_threads=False
        )

    def _batches(
        self, schema: pa.Schema, condition: ds.Expression | None, told: set[str]
    ) -> Iterator[pa.RecordBatch]:
        for worker in self._span.workers:
            for part in self._span.parts(worker):
                maybe_C, maybe_T = _may_pass(worker, part, condition, told)
                for rows in _rows(part, maybe_C, maybe_T):
                    made = row_columns.stats(worker, rows, schema.names)
                    yield pa.record_batch(list(made.values()), schema=schema)


def _rows(part: Part, maybe_C: Bools, maybe_T: Bools) -> Iterator[SummaryRows]:
    if not maybe_C.any() or not maybe_T.any():
        return
    for piece in part.view.statistics():
        if not piece.fields or not maybe_C[piece.commit_N[0] : piece.commit_N[-1] + 1].any():
            continue
        for start in range(0, len(piece.commit_N), BATCH_ROWS):
            within = piece.part(start, start + BATCH_ROWS)
            keep_N = maybe_T[np.minimum(within.tensor_N, len(maybe_T) - 1)]
            found = rows_where(part, within, keep_N & maybe_C[within.commit_N], None)
            if found is not None:
                yield found


def _may_pass(
    worker: int, part: Part, condition: ds.Expression | None, told: set[str]
) -> tuple[Bools, Bools]:
    """Return masks of the records and tensors (and last: no tensor) that may have matches."""
    infos = part.view.tensors
    maybe_C = np.ones(len(part.view.commits), np.bool_)
    maybe_T = np.zeros(max(infos, default=0) + 2, np.bool_)
    ids = np.array(list(infos), np.int64)
    maybe_T[ids] = True
    if told & WHEN.keys() and len(maybe_C):
        found = row_columns.when(worker, part, np.arange(len(maybe_C)))
        maybe_C &= _not_refuted(condition, found, told)
    if told & TENSOR.keys() and len(ids):
        maybe_T[ids] = _not_refuted(condition, row_columns.tensor(infos, ids), told)
    return maybe_C, maybe_T


def _not_refuted(condition: ds.Expression, known: Columns, told: Collection[str]) -> Bools | bool:
    """Return the rows that may satisfy a condition, whatever the values of unknown columns.

    Null means unknown, and a conjunction with a false part is false.
    """
    unknown = set(told) - known.keys()
    if unknown and any(name in str(condition) for name in _OF_NULLS):
        return True
    count = len(next(iter(known.values())))
    rows = known | {name: pa.nulls(count, STATS.field(name).type) for name in unknown}
    judged = ds.dataset(pa.table(rows)).scanner(columns={"judged": condition}).to_table()
    passes_N = judged.column("judged").combine_chunks()
    refused_N: Bools = ~(passes_N.fill_null(bool(unknown)).to_numpy(zero_copy_only=False))
    return ~refused_N


def _named(condition: ds.Expression | None) -> set[str]:
    """Return the columns that a filter refers to, and possibly some more."""
    words = set(re.findall(r"\w+", str(condition))) if condition is not None else set()
    return words & set(STATS.names)
