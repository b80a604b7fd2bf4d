"""The rows of the step in progress, and of forwards of which it is not known what they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np

from mothtrap.capture.arena import Arenas
from mothtrap.capture.pending import Device, Ids, PendingNumber, PendingRows, PendingStep
from mothtrap.capture.raw import Copier
from mothtrap.capture.rows import Reducer, Rows, join, summarize, with_fields
from mothtrap.core.records import RawBlock

ArrayT = TypeVar("ArrayT", contravariant=True)
Part = tuple[Sequence[int], Rows | PendingRows]
"""Numbers of tensors, and their rows."""
NO_FIELDS: Mapping[int, Mapping[str, float]] = MappingProxyType({})


class StepRows(Generic[ArrayT]):
    """Collects rows until they are taken.

    Attributes:
        device: reduces tensors that lie on devices, where the process has such.

    Args:
        reducer: the framework's own; what others reduce lies on no device.
    """

    def __init__(self, reducer: Reducer[ArrayT]) -> None:
        self.device: Device[ArrayT] | None = None
        self._reducer = reducer
        self._own: list[Part] = []
        self._forward: list[Part] = []
        self._fields: dict[int, dict[str, float]] = {}
        self._numbers: list[tuple[str, str, PendingNumber]] = []

    @property
    def is_blind(self) -> bool:
        """Whether no tensor can be read at present: a device takes down what it is to do."""
        return self.device is not None and self.device.is_capturing()

    def copier(
        self, reducer: Reducer[ArrayT], tensors: Sequence[ArrayT], arenas: Arenas
    ) -> Copier[ArrayT]:
        """What copies tensors; a device's are copied to arenas that it can write to."""
        device = self._device_of(reducer, tensors)
        if device is None:
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
            reducer: knows the tensors.
            numbers: of the tensors.
            tensors: are read now, and not held.
            statistics: ids of what is wanted.
            waits: they belong to a forward whose mode is not known yet.
        """
        device = self._device_of(reducer, tensors)
        rows: Rows | PendingRows
        if device is None:
            rows = summarize(reducer, tensors, statistics)
        else:
            rows = device.reduce(tensors, statistics)
        (self._forward if waits else self._own).append((numbers, rows))
        return rows

    def add_fields(self, tensor_id: int, fields: Mapping[str, float]) -> None:
        """Add columns to a tensor's row of the step."""
        self._fields.setdefault(tensor_id, {}).update(fields)

    def add_number(self, name: str, of: str, number: PendingNumber) -> None:
        """Add a scalar that is still on its way to the record that closes next."""
        self._numbers.append((name, of, number))

    def take_forward(self) -> list[Part]:
        """Return, and forget, the rows of the forward."""
        forward, self._forward = self._forward, []
        return forward

    def keep(self, parts: Sequence[Part]) -> None:
        """Make rows of a forward part of the step."""
        self._own += parts

    def take(self) -> tuple[list[Part], Mapping[int, Mapping[str, float]]]:
        """Return the rows of the step, and the columns that were added to them."""
        own, fields = self._own, self._fields
        self._own, self._fields = [], {}
        return own, fields

    def joined(
        self,
        parts: Sequence[Part],
        fields: Mapping[int, Mapping[str, float]],
        raw: Sequence[RawBlock],
    ) -> tuple[Ids, Rows, PendingStep | None]:
        """Put the rows of a record together.

        Returns:
            Ids and rows as in a record, or none of them and what will complete it, where a
            row or a copy is still on its way from a device.
        """
        numbers, self._numbers = self._numbers, []
        known = [(ids, rows) for ids, rows in parts if isinstance(rows, np.ndarray)]
        late = bool(numbers) or len(known) < len(parts)
        if self.device is not None and (raw or late):
            flight = self.device.send()
            if late or not flight.has_arrived():
                return *join([]), PendingStep(parts, fields, numbers, flight)
        return *with_fields(*join(known), fields), None

    def _device_of(
        self, reducer: Reducer[ArrayT], tensors: Sequence[ArrayT]
    ) -> Device[ArrayT] | None:
        """What reduces and copies tensors of a device; None for others."""
        device = self.device
        if device is None or reducer is not self._reducer or not device.holds(tensors):
            return None
        return device
