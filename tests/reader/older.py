"""A run as written by an earlier version: its statistics also have `step`, `mode`, `mode_step`."""

from __future__ import annotations

from pathlib import Path

from tests.reader.runs import DEAD_PID, closing, evaluation, started
from tests.store.records import record

from mothtrap.core.records import StepRecord

FOLDER = Path(__file__).parent / "data" / "keys-in-statistics"


def items() -> list[list[StepRecord]]:
    """Return its records, by the batches in which they were written."""
    return [
        [record(0, observations=(started(DEAD_PID),))],
        [record(1), evaluation(2, 0), record(2, tensors=2)],
        [record(3), closing(4)],
    ]
