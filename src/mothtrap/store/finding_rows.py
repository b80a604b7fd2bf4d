"""Rows of a user's data that findings are about: `rows-<seq>.arrow` next to the findings.

Shape suffixes: R = rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.store.segments import SegmentLog
from mothtrap.store.tailing import SegmentTail

TABLE = "rows"
SCHEMA = pa.schema(
    [pa.field("fingerprint", pa.string(), nullable=False), pa.field("row", pa.int64(), False)]
)
BATCH = 100_000
"""Number of rows of one batch; chosen by hand."""


def write_rows(folder: Path, rows: Mapping[str, npt.NDArray[np.int64]]) -> None:
    """Store the rows of findings; raises OSError.

    Args:
        folder: existing folder of a monitor.
        rows: indices of rows (R,), by fingerprint of the finding.
    """
    log = SegmentLog(folder, TABLE)
    for fingerprint, row_R in rows.items():
        for begin in range(0, len(row_R), BATCH):
            part = pa.array(np.asarray(row_R[begin : begin + BATCH], np.int64))
            names = pa.array([fingerprint] * len(part), pa.string())
            log.append(pa.record_batch([names, part], schema=SCHEMA))
    log.close()


def read_rows(folder: Path, fingerprint: str) -> npt.NDArray[np.int64]:
    """Return the rows (R,) of a finding in order of writing; empty if none were stored."""
    tail = SegmentTail(folder, TABLE)
    found = [np.zeros(0, np.int64)]
    while batches := tail.poll():
        for batch in batches:
            names = np.asarray(batch.column("fingerprint").to_pylist(), object)
            found.append(np.asarray(batch.column("row"))[names == fingerprint])
    return np.concatenate(found)
