"""Tables whose rows are indexed by time instead of steps, such as samples or profiles.

A table `time_<name>` has a column `time_s` (Unix seconds), and columns of numbers (float64) and
texts. Its rows need no step, and are not part of rule windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mothtrap.core.texts import storable
from mothtrap.store import columns, unpacking
from mothtrap.store.durability import Durability
from mothtrap.store.layout import TIMED, tables
from mothtrap.store.segments import ROLL_BYTES, SegmentLog
from mothtrap.store.tailing import SegmentTail

TIME = "time_s"
_BATCH_ERRORS = (pa.ArrowException, KeyError, ValueError, TypeError)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedRows:
    """Rows of a table, in order of writing.

    Attributes:
        time_N: float64, shape (N,), Unix seconds.
        numbers: float64 by column, shape (N,) each.
        texts: texts by column, N each.
    """

    time_N: Floats
    numbers: Mapping[str, Floats]
    texts: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.time_N)


class TimeLog:
    """Writes a table indexed by time; close it to seal the segment.

    Args:
        folder: existing folder of a worker.
        name: name of the table: lowercase letters, digits and underscores.
        roll_bytes: size at which a segment is sealed and the next segment begins.
        durability: failures that the rows survive.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        roll_bytes: int = ROLL_BYTES,
        durability: Durability = "crash",
    ) -> None:
        self._log = SegmentLog(
            folder, f"{TIMED}{name}", roll_bytes=roll_bytes, durability=durability
        )

    def append(
        self,
        time_s: Sequence[float],
        numbers: Mapping[str, Sequence[float]],
        texts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Write rows; after this returns, they survive the death of the process.

        Args:
            time_s: Unix seconds of each row.
            numbers: columns with the length of `time_s`; NaN is allowed.
            texts: further columns.

        Raises:
            ValueError: a column does not have the length of `time_s`, or is named `time_s`.
            OSError: the disk rejected the write; the rows can be appended again.
        """
        texts = texts or {}
        names = [TIME, *numbers, *texts]
        lengths = {len(time_s), *map(len, numbers.values()), *map(len, texts.values())}
        if len(lengths) > 1 or len(set(names)) < len(names):
            raise ValueError(
                f"columns {', '.join(names)} of a table over time: expected different "
                f"names and equal lengths, got lengths {sorted(lengths)}"
            )
        arrays = [
            columns.numbers(np.asarray(values, np.float64))
            for values in (time_s, *numbers.values())
        ]
        arrays += [columns.texts([storable(text) for text in values]) for values in texts.values()]
        kinds = [pa.float64()] * (1 + len(numbers)) + [pa.string()] * len(texts)
        fields = [pa.field(n, kind, nullable=False) for n, kind in zip(names, kinds, strict=True)]
        self._log.append(pa.record_batch(arrays, schema=pa.schema(fields)))

    def close(self) -> None:
        """Seal the current segment; no data is lost if this is not called."""
        self._log.close()


class TimeReader:
    """Reads a table indexed by time, even while it is being written.

    Args:
        folder: folder of a worker; need not exist yet.
        name: as for `TimeLog`.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._tail = SegmentTail(folder, f"{TIMED}{name}")
        self._damage: list[str] = []
        self._name = name

    def poll(self) -> list[TimedRows]:
        """Return the rows added since the last call, grouped by columns."""
        found = []
        while batches := self._tail.poll():
            for batch in batches:
                try:
                    found.append(_rows(batch))
                except _BATCH_ERRORS as err:
                    self._damage.append(f"a batch of {TIMED}{self._name} cannot be read: {err}")
        return found

    def damage(self, *, ended: bool = False) -> tuple[str, ...]:
        """Return the damage; with `ended`, the writer has ended, so an incomplete end is damage."""
        return (*self._tail.damage, *self._damage, *(self._tail.pending if ended else ()))


def timed_tables(folder: Path) -> tuple[str, ...]:
    """Return the sorted names of the time-indexed tables in a folder."""
    return tuple(t.removeprefix(TIMED) for t in tables(folder) if t.startswith(TIMED))


def _rows(batch: pa.RecordBatch) -> TimedRows:
    numbers = {
        field.name: unpacking.numbers(batch.column(field.name))
        for field in batch.schema
        if field.type == pa.float64()
    }
    texts = {
        field.name: batch.column(field.name).to_pylist()
        for field in batch.schema
        if field.type == pa.string()
    }
    return TimedRows(time_N=numbers.pop(TIME), numbers=numbers, texts=texts)
