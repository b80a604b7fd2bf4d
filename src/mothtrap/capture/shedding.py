"""Shedding of records when a queue is full, and its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import StepRecord
from mothtrap.statistics.summary import FIELDS

_NONFINITE = [FIELDS.index("nan"), FIELDS.index("inf")]
BLOCK_S = 60.0
"""Maximum wait of `on_full = "block"`; a disk that stalls for longer is broken. Chosen by hand."""
_OWED_OBSERVATIONS = 1000
"""Maximum number of facts of dropped steps kept for the next record; chosen by hand."""


class Shedding:
    """Shrinks records, and keeps the definitions and observations of dropped records.

    Args:
        name: name of the queue.
        on_dropped: receives the `Dropped` observations instead of the next record.
    """

    def __init__(self, name: str, on_dropped: Callable[[Dropped], None] | None = None) -> None:
        self._name, self._on_dropped = name, on_dropped
        self._dropped: dict[str, int] = {}
        self._owed: StepRecord | None = None

    def without_raw(self, record: StepRecord) -> StepRecord:
        """Return the record without stored tensor values."""
        self._count("tensors", sum(len(block.tensor_R) for block in record.raw))
        return replace(record, raw=()) if record.raw else record

    def thin(self, record: StepRecord) -> StepRecord:
        """Return the record with only the rows that are not finite.

        Rows still in transfer are kept, because it is unknown which of them are finite.
        """
        if record.pending is not None:
            if not record.pending.has_arrived():
                return record
            record = record.pending.complete(record)
        keep = np.any(record.summary_TF[:, _NONFINITE] > 0, axis=1)
        self._count("statistics rows", int(np.count_nonzero(~keep)))
        return replace(record, tensor_T=record.tensor_T[keep], summary_TF=record.summary_TF[keep])

    def drop(self, record: StepRecord) -> None:
        """Drop the record except for its definitions and observations."""
        self._count("steps", 1)
        self._count("tensors", sum(len(block.tensor_R) for block in record.raw))
        owed = self._owed
        observations = (*(owed.observations if owed else ()), *record.observations)
        self._count("observations", max(0, len(observations) - _OWED_OBSERVATIONS))
        self._owed = replace(
            record,
            defined=(*(owed.defined if owed else ()), *record.defined),
            tensor_T=record.tensor_T[:0],
            summary_TF=record.summary_TF[:0],
            raw=(),
            scalars=(),
            pending=None,
            observations=observations[-_OWED_OBSERVATIONS:],
        )

    def settle(self, record: StepRecord) -> StepRecord:
        """Add the pending definitions and observations to a record that is kept."""
        owed, self._owed = self._owed, None
        if owed is not None and owed is not record:
            record = replace(
                record,
                defined=(*owed.defined, *record.defined),
                observations=(*owed.observations, *record.observations),
            )
        if not self._dropped:
            return record
        told = tuple(
            Dropped(step=record.key.step, what=what, count=count, reason=f"{self._name} queue full")
            for what, count in self._dropped.items()
        )
        self._dropped.clear()
        if self._on_dropped is not None:
            for fact in told:
                self._on_dropped(fact)
            return record
        return replace(record, observations=(*record.observations, *told))

    def last(self) -> StepRecord | None:
        """Return a final record with the pending definitions and observations."""
        return self.settle(self._owed) if self._owed is not None else None

    def _count(self, what: str, lost: int) -> None:
        if lost:
            self._dropped[what] = self._dropped.get(what, 0) + lost
