"""Destinations of finished steps, and the records that go there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mothtrap.capture.containment import Containment
from mothtrap.capture.grouper import ClosedStep
from mothtrap.capture.step_rows import Collected, StepRows
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core.fact import Fact
from mothtrap.core.records import RawBlock, Scalar, StepRecord
from mothtrap.core.steps import StepKey


class Sink(Protocol):
    """A queue to the writer, or to the rules."""

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Queue a record; never blocks unless the user requested it."""


class Outlet:
    """Creates records, and passes them on.

    Attributes:
        sinks: receivers of the records.
        is_open: the first step was closed; earlier records are not passed on.

    Args:
        rows: completes rows in transfer from a device.
        tensors: announces new tensors with the next record.
        containment: catches exceptions of sinks.
        observe: receives observations of the outlet.
    """

    def __init__(
        self,
        rows: StepRows[Any],
        tensors: Tensors,
        containment: Containment,
        observe: Callable[[Fact], None],
    ) -> None:
        self.sinks: list[Sink] = []
        self.is_open = False
        self._rows, self._tensors = rows, tensors
        self._containment, self._observe = containment, observe

    def put(
        self,
        key: StepKey,
        collected: Collected,
        scalars: Sequence[Scalar] = (),
        facts: Sequence[Fact] = (),
        *,
        raw: Sequence[RawBlock] = (),
        closed: ClosedStep | None = None,
    ) -> None:
        """Pass a record to all sinks; a sink that fails is removed and reported."""
        ids, summary_TF, pending = self._rows.joined(collected, raw)
        record = StepRecord(
            key=key,
            wall_s=time.time(),
            optimizers=closed.optimizers if closed else (),
            skipped=closed is not None and closed.skipped,
            defined=self._tensors.take_new() if self._tensors.new else (),
            tensor_T=ids,
            summary_TF=summary_TF,
            scalars=tuple(scalars),
            observations=tuple(facts),
            raw=tuple(raw),
            pending=pending,
        )
        urgent = False
        for scalar in record.scalars:
            if scalar.name == "loss" and not math.isfinite(scalar.value):
                urgent = True
        for sink in tuple(self.sinks):
            try:
                sink.put(record, urgent=urgent)
            except Exception as err:
                self.sinks.remove(sink)
                failure = self._containment.report("queue", err, step=key.step)
                if failure is not None:
                    self._observe(failure)
