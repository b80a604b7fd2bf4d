from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.facts.workers import WorkerPace, WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.straggler import Straggler


def worker(
    rank: int, own_ms: Sequence[float], step_ms: float = 100.0, **phases_ms: float
) -> Window:
    """A worker's own times, one for each 50 steps, and the times of its phases in a step."""
    paces = [
        WorkerPace(step=50 * (n + 1), steps=50, step_s=step_ms / 1000, own_s=own / 1000)
        for n, own in enumerate(own_ms)
    ]
    started = WorkerStarted(
        step=0, rank=rank, world_size=3, pid=1, host="h", framework="torch", versions={}
    )
    steps = 50 * len(own_ms)
    seconds = {phase: steps * ms / 1000 for phase, ms in phases_ms.items()}
    timed = PhasesTimed(step=steps, first_step=1, seconds=seconds)
    return window(started, *paces, *([timed] if phases_ms else []), worker=rank)


def check(*workers: Window, **thresholds: float) -> list[Finding]:
    first, *others = workers
    return Straggler(**thresholds).check(dataclasses.replace(first, peers=tuple(others)))


def test_names_the_worker_that_the_others_wait_for() -> None:
    [finding] = check(
        worker(0, [20, 20, 20, 20]), worker(1, [21, 70, 72, 71]), worker(2, [20, 22, 21, 20])
    )
    assert (finding.severity, finding.workers) == (Severity.WARNING, (1,))
    assert (finding.step, finding.last_step, finding.count) == (51, 200, 150)
    assert finding.message.startswith("rank 1 takes 71 ms for its own part of a step of")


@pytest.mark.parametrize(
    "slow",
    [[20, 20, 20, 20], [70, 20, 70, 20], [20, 20, 70, 70], [28, 28, 28, 28]],
    ids=["never", "now and then", "not for long", "a little"],
)
def test_stays_quiet(slow: list[float]) -> None:
    others = worker(0, [20] * 4), worker(2, [20] * 4)
    assert check(others[0], worker(1, slow), others[1]) == []


def test_stays_quiet_where_workers_take_turns() -> None:
    turns = worker(0, [70, 20, 20, 70]), worker(1, [20, 70, 20, 20]), worker(2, [20, 20, 70, 20])
    assert check(*turns) == []


def test_what_is_little_of_a_step_is_not_told() -> None:
    paces = worker(0, [2] * 4), worker(1, [6] * 4)
    assert check(*paces) == []
    assert len(check(*paces, step_share=0.01)) == 1


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="3 observations"):
        check(worker(0, [20, 20]), worker(1, [70, 70]))
    with pytest.raises(NotApplicable, match="one rank"):
        Straggler().check(window(steps=5))


@pytest.mark.parametrize(
    ("phases_ms", "words"),
    [
        ({"data": 50.0, "forward": 20.0}, "; most of the difference is waiting for data"),
        ({"data": 1.0, "forward": 69.0}, "; most of the difference is in the forward pass"),
        ({"data": 25.0, "forward": 45.0}, ""),
        ({}, ""),
    ],
    ids=["data", "computing", "both", "not timed"],
)
def test_says_where_the_time_goes(phases_ms: dict[str, float], words: str) -> None:
    others = {"data": 1.0, "forward": 19.0, "backward": 80.0}
    [finding] = check(
        worker(0, [20] * 4, **others),
        worker(1, [70] * 4, **phases_ms),
        worker(2, [20] * 4, **others),
    )
    assert finding.message.endswith(f"the others take 20 ms{words}")


def test_the_phases_of_steps_before_it_was_slow_do_not_count() -> None:
    before = PhasesTimed(step=50, first_step=1, seconds={"evaluation": 100.0})
    usual = {"data": 1.0, "forward": 19.0}
    slow = worker(1, [20, 70, 70, 70])
    during = PhasesTimed(step=200, first_step=51, seconds={"data": 7.5, "forward": 3.0})
    known = *slow.seen(WorkerStarted), *slow.seen(WorkerPace)
    slow = window(*known, before, during, worker=1)
    [finding] = check(worker(0, [20] * 4, **usual), slow, worker(2, [20] * 4, **usual))
    assert finding.message.endswith("waiting for data")
