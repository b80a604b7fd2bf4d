"""A run as an earlier version wrote it: its statistics have `step`, `mode` and `mode_step`, too."""

from __future__ import annotations

from pathlib import Path

from tests.reader.runs import DEAD_PID, closing, evaluation, started
from tests.store.records import record

from mothtrap.core.records import StepRecord

FOLDER = Path(__file__).parent / "data" / "keys-in-statistics"


def items() -> list[list[StepRecord]]:
    """The records in it, by the batches in which they were written."""
    return [
        [record(0, observations=(started(DEAD_PID),))],
        [record(1), evaluation(2, 0), record(2, tensors=2)],
        [record(3), closing(4)],
    ]
