"""Limit on the bytes that a worker writes, and its reduction of capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mothtrap.core.facts.captures import Dropped
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import StepRecord
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import reserve
from mothtrap.store.retention import measure

RAW_SHARE = 0.9
"""Share of the limit for whole tensors; the rest is for statistics. Chosen by hand."""
_KEY_BYTES = 12
"""Bytes of a row of statistics in addition to its numbers: record and tensor."""
_NONFINITE = [COLUMN["nan"], COLUMN["inf"]]


class SizeLimit:
    """Makes records smaller once a worker has used its share of a run's size limit.

    Whole tensors are omitted first, then the statistics of tensors without NaN and infinities.
    Numbers and facts of a step are always stored, because they are small. A record reports the
    omitted data immediately, then whenever their amount has doubled, and at the end.

    Args:
        limit_bytes: limit; None = no limit.

    Attributes:
        lost: by kind of data, the omitted amount and the reported part of it; must be restored if
            the admitted records could not be written.
    """

    def __init__(self, limit_bytes: float | None = None) -> None:
        self._limit_bytes = limit_bytes
        self.lost: Mapping[str, tuple[int, int]] = {
            "tensors kept whole": (0, 0),
            "statistics rows": (0, 0),
        }

    def admit(self, records: Sequence[StepRecord], written_bytes: int) -> Sequence[StepRecord]:
        """Return the records in the form in which to write them.

        Args:
            records: the next records.
            written_bytes: bytes that the worker has written before them.
        """
        if self._limit_bytes is None:
            return records
        admitted = []
        for record in records:
            smaller = self._admit(record, self._limit_bytes, written_bytes)
            written_bytes += _row_bytes(smaller) + _raw_bytes(smaller)
            admitted.append(smaller)
        return admitted

    def _admit(self, record: StepRecord, limit_bytes: float, written_bytes: int) -> StepRecord:
        raw_bytes = _raw_bytes(record)
        if record.raw and written_bytes + raw_bytes > RAW_SHARE * limit_bytes:
            self._lose("tensors kept whole", sum(len(block.tensor_R) for block in record.raw))
            record, raw_bytes = replace(record, raw=()), 0
        if len(record.tensor_T) and written_bytes + raw_bytes + _row_bytes(record) > limit_bytes:
            record = self._without_finite(record)
        told = self._report(record)
        return replace(record, observations=(*record.observations, *told)) if told else record

    def _without_finite(self, record: StepRecord) -> StepRecord:
        if record.summary_TF.shape[1] != WIDTH:
            return record
        keep_T = np.any(record.summary_TF[:, _NONFINITE] > 0, axis=1)
        self._lose("statistics rows", int(np.count_nonzero(~keep_T)))
        return replace(
            record, tensor_T=record.tensor_T[keep_T], summary_TF=record.summary_TF[keep_T]
        )

    def _lose(self, what: str, count: int) -> None:
        lost, told = self.lost[what]
        self.lost = {**self.lost, what: (lost + count, told)}

    def _report(self, record: StepRecord) -> list[Dropped]:
        last = any(isinstance(o, WorkerEnded) for o in record.observations)
        told = []
        for what, (lost, known) in self.lost.items():
            owed = lost - known
            if owed and (last or lost >= 2 * known):
                self.lost = {**self.lost, what: (lost, lost)}
                reason = "the run has reached its size limit (max_run_mb)"
                told.append(Dropped(step=record.key.step, what=what, count=owed, reason=reason))
        return told


def _raw_bytes(record: StepRecord) -> int:
    return sum(block.bytes_N.nbytes for block in record.raw)


def _row_bytes(record: StepRecord) -> int:
    return record.summary_TF.nbytes + _KEY_BYTES * len(record.tensor_T)


def share_bytes(run: Path, max_run_mb: float, workers: int) -> float | None:
    """Return the bytes that a worker may add to a run; None = no limit.

    Args:
        run: folder of the run; data of earlier attempts counts, space reserved for the end does
            not.
        max_run_mb: limit of the whole run, in MB of 2**20 bytes; 0 = none.
        workers: number of workers that write at the same time.
    """
    if not max_run_mb:
        return None
    written_bytes = measure(run).size_bytes - reserve.held_bytes(run)
    return max(0.0, max_run_mb * 2**20 - written_bytes) / max(1, workers)
