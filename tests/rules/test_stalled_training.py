from __future__ import annotations

import dataclasses

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.stalled_training import StalledTraining


def waited(seconds: float, seen: Window) -> Window:
    return dataclasses.replace(seen, seen_s=1e9, now_s=1e9 + seconds)


def test_fires_when_nothing_came_for_long() -> None:
    [finding] = StalledTraining().check(waited(2000.0, window(loss([1.0] * 5))))
    assert (finding.severity, finding.step) == (Severity.ERROR, 4)
    assert finding.message == "no step or evaluation for 2,000 s since step 4 (limit 1800 s)"


def test_the_limit_can_be_set() -> None:
    seen = waited(60.0, window(loss([1.0] * 5)))
    assert StalledTraining().check(seen) == []
    assert len(StalledTraining(seconds=59.0).check(seen)) == 1


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    ended = WorkerEnded(step=5, steps=5, own_s=0.0, wall_s=1.0)
    assert StalledTraining().check(waited(1e6, window(loss([1.0] * 5), ended))) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="no step was recorded"):
        StalledTraining().check(waited(1e6, window(steps=0)))


def stalled(reading_s: float, *, has_resumed: bool = False) -> WorkerStalled:
    return WorkerStalled(
        step=4,
        rank=0,
        waited_s=reading_s,
        function="main",
        location="train.py:9",
        reading="`parse` runs on record 3 of a.tfrecord, in line train.py:5",
        reading_s=reading_s,
        has_resumed=has_resumed,
    )


def test_warns_early_when_a_pipeline_stays_at_a_record() -> None:
    seen = window(loss([1.0] * 5), stalled(70.0))
    [finding] = StalledTraining().check(waited(70.0, seen))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.message == (
        "no step or evaluation for 70 s since step 4 (limit 60 s): "
        "`parse` runs on record 3 of a.tfrecord, in line train.py:5"
    )
    [finding] = StalledTraining().check(waited(2000.0, seen))
    assert finding.severity is Severity.ERROR
    assert "record 3 of a.tfrecord" in finding.message


def test_a_pipeline_that_reads_on_is_no_stall() -> None:
    moving = waited(300.0, window(loss([1.0] * 5), stalled(20.0)))
    resumed = waited(300.0, window(loss([1.0] * 5), stalled(70.0, has_resumed=True)))
    assert StalledTraining().check(moving) == StalledTraining().check(resumed) == []
