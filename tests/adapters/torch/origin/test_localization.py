"""Positions in arrays are converted to rows of the batch where possible."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.origin.localization import (
    FaultLocalization,
    rows_of_batch,
)
from mothtrap.adapters.torch.origin.trials import Trials
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import BatchHanded, RecordedStep
from mothtrap.snapshot.microbatches import MicroBatches
from mothtrap.tracing.snapshots.outcome import Outcome


@pytest.mark.parametrize(
    ("places", "length", "count", "rows"),
    [
        ((3, 17), 32, 32, (3, 17)),
        ((0, 5, 6, 11), 24, 4, (0, 1)),  # six words a row
        ((3,), 7, 32, ()),
        ((3,), 32, 0, ()),
        ((), 32, 32, ()),
    ],
)
def test_rows_are_those_whose_entries_are_bad(
    places: tuple[int, ...], length: int, count: int, rows: tuple[int, ...]
) -> None:
    assert rows_of_batch(places, length, count) == rows


def test_rows_are_picked_from_the_micro_batch_that_they_are_of() -> None:
    events = [BatchHanded(loader=0, site="t.py:5", value=None) for _ in range(3)]
    plan = ReplayPlan(step=3, workers={}, scratch="", watch=True, rows=(1,), micro_batch=1)
    micro_batches = MicroBatches(RecordedStep(step=3, events=tuple(events)), None)
    outcome = Outcome(plan, 0)
    localization = FaultLocalization(plan, NameBook(), outcome, Trials(outcome), micro_batches)
    picked = []
    try:
        for event, size in zip(events, (4, 2, 4), strict=True):
            localization.came(event, lambda size=size: torch.ones(size))  # type: ignore[misc]
            picked.append(len(localization.picked(event, [torch.ones(size)])[0]))
    finally:
        localization.completed(ReplayResult(), SimpleNamespace(alive=list), None)  # type: ignore[arg-type]
    assert picked == [4, 1, 4]
