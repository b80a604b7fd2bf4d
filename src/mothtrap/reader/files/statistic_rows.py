"""Statistics of committed records, in memory by column.

A column with the same value in all rows of a piece (not captured, or no non-finite values) is kept
as that value. Shape suffixes: N = rows, F = fields of a summary row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core.window import Floats, Ints
from mothtrap.reader.files.commits import Commits
from mothtrap.reader.files.committed_rows import CommittedRows, Rows
from mothtrap.statistics.summary import FIELDS
from mothtrap.store import statistic_columns
from mothtrap.store.statistic_columns import Field

_COLUMNS = ("tensor", statistic_columns.SUMMARY, *FIELDS)


class StatisticsPiece(Rows):
    """Consecutive rows of statistics.

    Attributes:
        tensor_N: uint32, ids of tensors.
        fields: fields by their names in `statistics.summary.FIELDS`; empty if the rows come from
            another version, so that no column can be trusted.
    """

    __slots__ = ("fields", "tensor_N")

    def __init__(
        self, commit_N: Ints, tensor_N: npt.NDArray[Any], fields: Mapping[str, Field]
    ) -> None:
        super().__init__(commit_N)
        self.tensor_N = tensor_N
        self.fields = fields

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return `tensor`, or a field, as a read-only array of shape (N,)."""
        return self.tensor_N if name == "tensor" else self.field(name)

    def field(self, name: str, rows: Ints | None = None) -> Floats:
        """Return a field of all or some rows, as a read-only array of shape (N,)."""
        values = self.fields[name]
        if isinstance(values, float):
            return np.broadcast_to(values, len(self.commit_N) if rows is None else len(rows))
        return values if rows is None else values[rows]

    def summary(self, rows: Ints | slice) -> Floats:
        """Return rows as stored, shape (N, F)."""
        columns = [np.broadcast_to(self.fields[f], len(self.commit_N))[rows] for f in FIELDS]
        return np.stack(columns, axis=1)

    def part(self, start: int, stop: int) -> StatisticsPiece:
        """Return some of these rows, without copying."""
        fields = {
            name: values if isinstance(values, float) else values[start:stop]
            for name, values in self.fields.items()
        }
        return StatisticsPiece(self.commit_N[start:stop], self.tensor_N[start:stop], fields)

    def joined(self, later: Self) -> Self | None:
        """Return these rows joined with the following rows; None if they cannot be joined."""
        if self.fields.keys() != later.fields.keys():
            return None
        return type(self)(
            np.concatenate((self.commit_N, later.commit_N)),
            np.concatenate((self.tensor_N, later.tensor_N)),
            {name: self._joined_field(later, name) for name in self.fields},
        )

    def _joined_field(self, later: Self, name: str) -> Field:
        both = self.fields[name], later.fields[name]
        if all(isinstance(field, float) for field in both) and _bits(both[0]) == _bits(both[1]):
            return both[0]
        return np.concatenate((self.field(name), later.field(name)))


class StatisticRows(CommittedRows):
    """Reads the statistics of a worker, and returns the rows of committed records."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "stats", "tensors", _COLUMNS, statistic_columns.width)

    def poll_fields(self, commits: Commits) -> Iterator[StatisticsPiece]:
        """Yield the committed rows that were added since the last poll."""
        for piece in self.poll(commits):
            # Copies, so that the result does not keep the rows in memory.
            tensor_N = piece.column("tensor").copy()
            yield StatisticsPiece(piece.commit_N, tensor_N, statistic_columns.fields(piece.batch))

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select([name for name in batch.schema.names if name in self._keep])


def _bits(value: Field) -> bytes:
    return np.float64(value).tobytes()
