"""Machine metrics over time: `RUN/<attempt>/machine/time_machine-<seq>.arrow`.

Rows are keyed by time, not by step: `time_s` (Unix seconds), `name`, `of` (a device, or ""),
`value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.store import columns
from mothtrap.store.layout import TIMED
from mothtrap.store.segments import SegmentLog
from mothtrap.store.tailing import SegmentTail

FOLDER = "machine"
TABLE = f"{TIMED}machine"
SCHEMA = pa.schema(
    [
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("of", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)


class Reading(NamedTuple):
    """One machine metric at one time."""

    time_s: float
    name: str
    of: str
    value: float


class MachineSeries(NamedTuple):
    """One machine metric over time; both arrays are float64 of equal length, oldest first."""

    times_s: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


class MachineLog:
    """Writes readings; appended readings survive the process."""

    def __init__(self, attempt: Path) -> None:
        (attempt / FOLDER).mkdir(exist_ok=True)
        self._log = SegmentLog(attempt / FOLDER, TABLE)

    def append(self, readings: Sequence[Reading]) -> None:
        """Write readings.

        Raises:
            OSError: the disk rejected the write; no data of this call is written.
        """
        if readings:
            times, names, of, values = zip(*readings, strict=True)
            arrays = [
                columns.numbers(np.array(times, np.float64)),
                columns.texts(names),
                columns.texts(of),
                columns.numbers(np.array(values, np.float64)),
            ]
            self._log.append(pa.record_batch(arrays, schema=SCHEMA))

    def close(self) -> None:
        """Seal the segment."""
        self._log.close()


class MachineReader:
    """Reads the metrics of an attempt, even while they are being written.

    Attributes:
        readings: values by name and device, oldest first.
    """

    def __init__(self, attempt: Path) -> None:
        self._tail = SegmentTail(attempt / FOLDER, TABLE)
        self._times: dict[tuple[str, str], list[float]] = {}
        self._values: dict[tuple[str, str], list[float]] = {}

    def poll(self) -> None:
        """Read new data, skipping unreadable parts."""
        while batches := self._tail.poll():
            for batch in batches:
                if batch.schema.names != SCHEMA.names:
                    continue
                rows = zip(*(batch.column(n).to_pylist() for n in SCHEMA.names), strict=True)
                for time_s, name, of, value in rows:
                    self._times.setdefault((name, of), []).append(time_s)
                    self._values.setdefault((name, of), []).append(value)

    @property
    def series(self) -> dict[tuple[str, str], MachineSeries]:
        """Return each metric over time, by name and device."""
        return {
            key: MachineSeries(np.array(self._times[key]), np.array(self._values[key]))
            for key in self._times
        }
