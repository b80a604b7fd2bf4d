"""The rows of the step in progress, and of forward passes whose purpose is not known yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import msgspec
import numpy as np

from mothtrap.capture.arena import Arenas
from mothtrap.capture.pending import Device, Ids, PendingNumber, PendingRows, PendingStep
from mothtrap.capture.raw import Copier
from mothtrap.capture.selection import ESSENTIAL
from mothtrap.capture.statistics_rows import OF_SEVERAL, Reducer, Rows, join, with_fields
from mothtrap.core.records import RawBlock

ArrayT = TypeVar("ArrayT", contravariant=True)
Part = tuple[Sequence[int], Rows | PendingRows]
"""Ids of tensors, and their rows."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a record, complete or still being transferred from a device.

    Attributes:
        parts: rows of tensors.
        fields: columns that adapters computed, by tensor.
        numbers: further scalars in transfer, as name and owner.
    """

    parts: Sequence[Part] = ()
    fields: Mapping[int, Mapping[str, float]] = msgspec.field(default_factory=dict)
    numbers: Sequence[tuple[str, str, PendingNumber]] = ()


class StepRows(Generic[ArrayT]):
    """Collects rows until they are taken.

    Attributes:
        device: reduces tensors on devices, if the process uses any.
        reducer: reducer of the framework with tensors on the device.

    Args:
        reducer: initial value of the attribute.
    """

    def __init__(self, reducer: Reducer[ArrayT]) -> None:
        self.device: Device[ArrayT] | None = None
        self.reducer = reducer
        self._own: list[Part] = []
        self._forward: list[Part] = []
        self._fields: dict[int, dict[str, float]] = {}
        self._numbers: list[tuple[str, str, PendingNumber]] = []

    def copier(
        self, reducer: Reducer[ArrayT], tensors: Sequence[ArrayT], arenas: Arenas
    ) -> Copier[ArrayT]:
        """Return the copier for tensors; a device's tensors go to arenas that it can write to."""
        device = self.device
        if device is None or not self._lie_on(device, reducer, tensors):
            return reducer
        arenas.allocate_with(device.memory)
        return device

    def add(
        self,
        reducer: Reducer[ArrayT],
        numbers: Sequence[int],
        tensors: Sequence[ArrayT],
        statistics: frozenset[str],
        *,
        waits: bool,
    ) -> Rows | PendingRows:
        """Reduce tensors, and return the rows.

        Args:
            reducer: module for the tensors.
            numbers: ids of the tensors.
            tensors: the tensors, which are read immediately and not kept.
            statistics: ids of the requested statistics.
            waits: they belong to a forward pass whose mode is not known yet.
        """
        device = self.device
        rows: Rows | PendingRows
        if device is None or not self._lie_on(device, reducer, tensors):
            # Uses the cheapest method; statistics of several tensors come from adapters, see
            # `add_fields`.
            norms = statistics - OF_SEVERAL <= ESSENTIAL
            rows = reducer.norms(tensors) if norms else reducer.summarize(tensors, statistics)
        else:
            rows = device.reduce(tensors, statistics)
        (self._forward if waits else self._own).append((numbers, rows))
        return rows

    def add_fields(self, tensor_id: int, fields: Mapping[str, float]) -> None:
        """Add columns to a tensor's row in this step."""
        self._fields.setdefault(tensor_id, {}).update(fields)

    def add_number(self, name: str, of: str, number: PendingNumber) -> None:
        """Add a scalar that is still being transferred."""
        self._numbers.append((name, of, number))

    def take_forward(self) -> list[Part]:
        """Return and remove the rows of the forward pass."""
        forward, self._forward = self._forward, []
        return forward

    def keep(self, parts: Sequence[Part]) -> None:
        """Make rows of a forward pass part of the step."""
        self._own += parts

    def take(self) -> Collected:
        """Return and remove the contents of the step."""
        taken = Collected(parts=self._own, fields=self._fields, numbers=self._numbers)
        self._own, self._fields, self._numbers = [], {}, []
        return taken

    def joined(
        self, collected: Collected, raw: Sequence[RawBlock]
    ) -> tuple[Ids, Rows, PendingStep | None]:
        """Combine the rows of a record.

        Returns:
            Ids and rows as in a record. If a row, a number or a copy is in transfer from a device,
            instead an object that completes the record.
        """
        parts, fields, numbers = collected.parts, collected.fields, collected.numbers
        if len(parts) == 1 and not (fields or numbers) and self.device is None:
            (numbers_T, rows), *_ = parts
            if isinstance(rows, np.ndarray) and len(set(numbers_T)) == len(numbers_T):
                return np.array(numbers_T, np.uint32), rows, None
        known = []
        for numbers_T, rows in parts:
            if isinstance(rows, np.ndarray):
                known.append((numbers_T, rows))
        late = bool(numbers) or len(known) < len(parts)
        if self.device is not None and (raw or late):
            flight = self.device.send()
            if late or not flight.has_arrived():
                return *join([]), PendingStep(parts, fields, numbers, flight)
        ids, summary_TF = join(known)
        if fields:
            ids, summary_TF = with_fields(ids, summary_TF, fields)
        return ids, summary_TF, None

    def _lie_on(
        self, device: Device[ArrayT], reducer: Reducer[ArrayT], tensors: Sequence[ArrayT]
    ) -> bool:
        return reducer is self.reducer and device.holds(tensors)
