"""Rows of a served model, failing or sampled: `failing-<seq>.arrow` next to the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from mothtrap.store.segments import SegmentLog
from mothtrap.store.tailing import SegmentTail

TABLE = "failing"
SAMPLED = ""
"""Code of rows that were recorded regardless of whether they fail."""
SCHEMA = pa.schema(
    [
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),
        pa.field("prediction", pa.string(), nullable=False),
    ]
)


class FailingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded row of a served model.

    `time_s` is the Unix time of the call in seconds, `code` is the code of the assertion that the
    prediction broke, or "" for a row of the sample of all calls, `row` contains the values by
    column, and `prediction` is the model's output before any correction.
    """

    time_s: float
    code: str
    row: Any
    prediction: Any


class FailingLog:
    """Writes failing rows; appended rows survive the process.

    Args:
        folder: existing folder of a monitor.
    """

    def __init__(self, folder: Path) -> None:
        self._log = SegmentLog(folder, TABLE)

    def append(self, rows: Sequence[FailingRow]) -> None:
        """Write rows; raises OSError."""
        encode = msgspec.json.Encoder(enc_hook=str).encode
        columns: list[Any] = [
            pa.array([each.time_s for each in rows], pa.float64()),
            pa.array([each.code for each in rows], pa.string()),
            pa.array([encode(each.row).decode() for each in rows], pa.string()),
            pa.array([encode(each.prediction).decode() for each in rows], pa.string()),
        ]
        self._log.append(pa.record_batch(columns, schema=SCHEMA))

    def close(self) -> None:
        """Seal the segment."""
        self._log.close()


def read_failing(folder: Path) -> list[FailingRow]:
    """Return the failing rows in a monitor's folder, in order of writing."""
    tail, found = SegmentTail(folder, TABLE), []
    while batches := tail.poll():
        for batch in batches:
            for row in batch.to_pylist():
                values = {name: msgspec.json.decode(row[name]) for name in ("row", "prediction")}
                found.append(FailingRow(time_s=row["time_s"], code=row["code"], **values))
    return found
