from __future__ import annotations

import dataclasses

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
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
    with pytest.raises(NotEnoughData, match="no step was seen"):
        StalledTraining().check(waited(1e6, window(steps=0)))
