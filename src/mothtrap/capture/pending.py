"""Steps whose statistics and copies are still in transfer from a device."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.capture.raw import Copier
from mothtrap.capture.statistics_rows import Rows, join, with_fields
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import Scalar, StepRecord

ArrayT = TypeVar("ArrayT", contravariant=True)
Ids = npt.NDArray[np.uint32]


class PendingRows(Protocol):
    """Rows of statistics that are still being transferred."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""

    def has_arrived(self) -> bool:
        """Return whether `rows` would return immediately."""

    def rows(self) -> Rows:
        """Wait for the rows; RuntimeError if they never arrive."""


class Flight(Protocol):
    """All data that was in transfer at the same time."""

    def has_arrived(self) -> bool:
        """Return whether `wait` would return immediately."""

    def wait(self) -> None:
        """Wait for the data; RuntimeError if it never arrives."""


class PendingNumber(Protocol):
    """A number that is still being transferred."""

    def __float__(self) -> float:
        """Wait for the number; raises RuntimeError if it is never available."""


class Device(Copier[ArrayT], Protocol[ArrayT]):
    """Devices whose tensors are reduced and copied asynchronously.

    Memory passed to `copy_bytes` is filled when the next `send` has arrived.
    """

    def holds(self, tensors: Sequence[ArrayT]) -> bool:
        """Return whether tensors are on such a device."""

    def is_capturing(self) -> bool:
        """Return whether no data can be read at present."""

    def reduce(self, tensors: Sequence[ArrayT], statistics: Collection[str]) -> PendingRows:
        """Start to reduce each tensor to one row."""

    def memory(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory that `copy_bytes` can write to."""

    def bring(self, number: ArrayT) -> PendingNumber:
        """Start to transfer a one-element tensor, ahead of the queue."""

    def send(self) -> Flight:
        """Start to transfer the queued data; return everything in transfer."""

    def settle(self) -> None:
        """Wait for all transfers; data that failed is discarded."""


class PendingStep:
    """Completes the record of a step on the thread that needs it.

    Args:
        rows: statistics of tensors with their rows, available or in transfer.
        fields: columns that adapters computed, by tensor.
        numbers: further scalars in transfer, as name and owner.
        flight: provides the rest, and fills the copies of the record.
    """

    def __init__(
        self,
        rows: Sequence[tuple[Sequence[int], Rows | PendingRows]],
        fields: Mapping[int, Mapping[str, float]],
        numbers: Sequence[tuple[str, str, PendingNumber]],
        flight: Flight,
    ) -> None:
        self.nbytes = sum(part.nbytes for _, part in rows)
        self._rows, self._fields, self._flight = [*rows], fields, flight
        self._numbers = [*numbers]
        self._scalars: list[Scalar] = []
        self._known: tuple[Ids, Rows] | None = None
        self._lost = self._lost_numbers = 0
        self._failure = ""
        self._lock = threading.Lock()

    def has_arrived(self) -> bool:
        """Return whether `complete` would return immediately."""
        return self._flight.has_arrived()

    def complete(self, record: StepRecord) -> StepRecord:
        """Wait for missing data; return the complete record, with a report of lost data."""
        lost_copies = 0
        try:
            # First, because a request for unsent rows makes the device send them, which only the
            # training thread may do.
            self._flight.wait()
        except RuntimeError as err:
            self._failure = str(err)
            lost_copies = sum(len(block.tensor_R) for block in record.raw)
        with self._lock:
            if self._known is None:
                self._known = self._joined()
            ids, summary_TF = self._known
        told = tuple(
            Dropped(step=record.key.step, what=what, count=count, reason=self._reason())
            for what, count in (
                ("statistics rows", self._lost),
                ("numbers", self._lost_numbers),
                ("tensors", lost_copies),
            )
            if count
        )
        return replace(
            record,
            tensor_T=ids,
            summary_TF=summary_TF,
            raw=() if lost_copies else record.raw,
            scalars=(*record.scalars, *self._scalars),
            observations=(*record.observations, *told),
            pending=None,
        )

    def _joined(self) -> tuple[Ids, Rows]:
        known: list[tuple[Sequence[int], Rows]] = []
        for ids, part in self._rows:
            try:
                known.append((ids, part if isinstance(part, np.ndarray) else part.rows()))
            except RuntimeError as err:
                self._failure = str(err)
                self._lost += len(ids)
        for name, of, number in self._numbers:
            try:
                self._scalars.append(Scalar(name, of, float(number)))
            except RuntimeError as err:
                self._failure = str(err)
                self._lost_numbers += 1
        self._rows, self._numbers = [], []
        return with_fields(*join(known), self._fields)

    def _reason(self) -> str:
        words = self._failure.strip().splitlines()
        return f"the device failed: {words[0] if words else 'it did not say why'}"


def completed(record: StepRecord) -> StepRecord:
    """Wait for all data in transfer, and return the complete record."""
    return record if record.pending is None else record.pending.complete(record)
