"""Destinations of finished steps."""

from __future__ import annotations

import math
from typing import Protocol

from mothtrap.capture.containment import Containment
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.records import StepRecord


class Sink(Protocol):
    """A queue to the writer, or to the rules."""

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Take a record; never blocks unless the user asked for it."""


def put_into(sinks: list[Sink], record: StepRecord, containment: Containment) -> list[ToolError]:
    """Hand a record to all sinks; one that fails is taken out, and what is to be told returned."""
    urgent, told = False, []
    for scalar in record.scalars:
        if scalar.name == "loss" and not math.isfinite(scalar.value):
            urgent = True
    for sink in tuple(sinks):
        try:
            sink.put(record, urgent=urgent)
        except Exception as err:
            sinks.remove(sink)
            failure = containment.report("queue", err, step=record.key.step)
            if failure is not None:
                told.append(failure)
    return told
