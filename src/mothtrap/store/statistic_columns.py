"""Statistics by column: most columns of a row have the same value in all rows.

Usually only a few statistics of a tensor are captured. As written, rows have one column `summary`
of F numbers. In compacted segments (see `compacting`), each field is a column, and a field that was
never captured has no column. Shape suffixes: N = rows, F = fields of a summary row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.statistics.summary import FIELDS, WIDTH
from mothtrap.store import columns
from mothtrap.store.unpacking import numbers, vectors

BLOCK_ROWS = 1 << 12
"""Number of rows that are inspected together; chosen by hand: they fit into the caches."""
SUMMARY = "summary"
Floats = npt.NDArray[np.float64]
Field = Floats | float
"""A column, or the value of all its rows."""


def width(batch: pa.RecordBatch) -> int:
    """Return the number of values in a row of a batch.

    Raises:
        KeyError: it has no statistics.
    """
    if SUMMARY in batch.schema.names:
        return int(batch.schema.field(SUMMARY).type.list_size)
    if not any(name in FIELDS for name in batch.schema.names):
        raise KeyError(SUMMARY)
    return WIDTH


def fields(batch: pa.RecordBatch) -> dict[str, Field]:
    """Return the fields of a batch; empty if its rows have another version.

    The arrays are copies, so they do not keep the memory of the batch alive.
    """
    if SUMMARY in batch.schema.names:
        summary_NF = vectors(batch.column(SUMMARY))
        if summary_NF.shape[1] != WIDTH or summary_NF.dtype != np.float64:
            return {}
        varies_F = _varying(summary_NF)
        return {
            name: np.ascontiguousarray(summary_NF[:, place])
            if varies_F[place]
            else float(summary_NF[0, place])
            for place, name in enumerate(FIELDS)
        }
    found: dict[str, Field] = dict.fromkeys(FIELDS, np.nan)
    for name in FIELDS:
        if name in batch.schema.names:
            value_N = numbers(batch.column(name))
            varies = len(value_N) and _varying(value_N.reshape(-1, 1))[0]
            found[name] = value_N.copy() if varies else float(value_N[0])
    return found


def summaries(batch: pa.RecordBatch) -> Floats:
    """Return the rows of a batch as stored, shape (N, F)."""
    if SUMMARY in batch.schema.names:
        return vectors(batch.column(SUMMARY))
    found = fields(batch)
    return np.stack([np.broadcast_to(found[name], len(batch)) for name in FIELDS], axis=1)


def by_column(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return a batch with a column per captured field; None for another version."""
    found = fields(batch)
    if not found:
        return None
    others = {n: batch.column(n) for n in batch.schema.names if n != SUMMARY}
    captured = {
        name: columns.numbers(np.broadcast_to(values, len(batch)))
        for name, values in found.items()
        if not (isinstance(values, float) and np.isnan(values))
    }
    made = others | (captured or {FIELDS[0]: columns.numbers(np.full(len(batch), np.nan))})
    schema = [pa.field(name, array.type, nullable=False) for name, array in made.items()]
    return pa.record_batch(list(made.values()), schema=pa.schema(schema))


def _varying(summary_NF: Floats) -> list[bool]:
    """Return which columns have rows with different bits, so that NaN equals NaN."""
    bits_NF = summary_NF.view(np.int64)
    differs_F = np.zeros(summary_NF.shape[1], np.int64)
    for start in range(0, len(bits_NF), BLOCK_ROWS):
        block_NF = bits_NF[start : start + BLOCK_ROWS] ^ bits_NF[0]
        differs_F |= np.bitwise_or.reduce(block_NF, axis=0)
    return [bool(differs) for differs in differs_F]
