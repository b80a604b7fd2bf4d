"""Reasons why the exception that ended a run left no step to replay."""

from __future__ import annotations

from typing import Any

import pytest
from tests.report.faulty_run import HandMadeRun
from tests.store.test_layout import info

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.report.unkept import why_refused, why_unkept

ENDED = WorkerEnded(
    step=39,
    steps=39,
    own_s=0.0,
    wall_s=1.0,
    exception="RuntimeError: Caught RuntimeError in DataLoader worker process 1.",
    location="conv.py:67",
)
FAILED = ScriptFailed(
    step=39,
    kind="shape",
    error="RuntimeError: Caught RuntimeError in DataLoader worker process 1.",
    sentence="the samples of loader 1 (conv.py:67) do not fit into one batch",
)


def run(*observed: Any, **config: object) -> Any:
    return HandMadeRun(observed=observed, info=info(config=config), state="crashed")


def test_an_exception_before_the_inputs_of_a_step_is_told_with_what_show_says() -> None:
    assert why_unkept(run(ENDED, FAILED, snapshots=4), "seen") == (
        "it ended with RuntimeError at conv.py:67: Caught RuntimeError in DataLoader worker "
        "process 1, before the next step had any inputs (in a loader, or between two steps), so "
        "there is no step to replay; `mothtrap show seen` reports: the samples of loader 1 "
        "(conv.py:67) do not fit into one batch"
    )


def test_one_that_nothing_is_known_of_is_told_without() -> None:
    said = why_unkept(run(ENDED), "seen")
    assert said is not None
    assert said.endswith("so there is no step to replay")


def test_a_step_that_could_not_be_kept_is_told_with_the_reason() -> None:
    refused = SnapshotKept(step=39, reason="exception", error="weights are larger than 4 MB")
    said = why_unkept(run(ENDED, refused), "seen")
    assert said is not None
    assert said.endswith("; step 39 could not be stored: weights are larger than 4 MB")


@pytest.mark.parametrize(
    ("observed", "config"),
    [
        ((), {}),
        ((ENDED,), {"snapshots": 0}),
        ((ENDED,), {"ring_mb": 0}),
        ((ENDED, SnapshotKept(step=39, reason="exception", folder="gone")), {}),
        ((WorkerEnded(step=9, steps=9, own_s=0, wall_s=1, exception="KeyboardInterrupt"),), {}),
        ((WorkerEnded(step=9, steps=9, own_s=0, wall_s=1, exception="SystemExit: 3"),), {}),
    ],
)
def test_nothing_is_said_where_it_is_another_reason(
    observed: tuple[Any, ...], config: dict[str, object]
) -> None:
    assert why_unkept(run(*observed, **config), "seen") is None


def test_the_first_step_that_was_refused_is_told_with_the_reason() -> None:
    kept = SnapshotKept(step=1, reason="step", folder="1")
    refused = SnapshotKept(step=16, reason="unsound step: the loss is NaN", error="no batch")
    later = SnapshotKept(step=40, reason="finding NUM001", error="no room")
    assert why_refused(run(kept, refused, later)) == "step 16 could not be stored: no batch"
    assert why_refused(run(kept)) is None
