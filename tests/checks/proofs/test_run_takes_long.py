"""Time and memory of the whole run."""

from __future__ import annotations

import math

from mothtrap.checks.check import result_of
from mothtrap.checks.proofs.run_takes_long import RunTakesLong
from mothtrap.checks.starts import LoopsSeen, Starts, StartSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.facts.checks import CheckResult


def measured(
    step_s: float, loops: LoopsSeen, *, wait_s: float = 0.0, most_hours: float = 168.0
) -> CheckResult:
    """Measure a start of five steps, the first of which is slow."""
    second = StartSeen(
        losses=(1.0,) * 5,
        seconds=(60.0, *(step_s,) * 4),
        waits_s=(0.0, *(wait_s,) * 4),
        memory_bytes=300 << 20,
    )
    starts = Starts(first=StartSeen(losses=()), second=second)
    subject = Subject(starts=lambda: starts, loops=loops)
    return result_of(RunTakesLong(most_hours=most_hours), subject, 5)


def test_the_time_of_the_run_is_the_median_step_times_the_steps() -> None:
    made = measured(0.5, LoopsSeen(steps=7200, epoch=720))
    assert not made.found
    assert made.figures["seconds per step"] == 0.5
    assert made.figures["steps per epoch"] == 720
    assert made.figures["minutes an epoch"] == 6.0
    assert made.figures["minutes of the run"] == 60
    assert made.figures["MiB of memory"] == 300


def test_a_run_beyond_the_deadline_gets_a_warning() -> None:
    [found] = measured(0.5, LoopsSeen(steps=72_000), most_hours=8.0).found
    assert found.severity == "warning"
    assert "72,000 steps takes 10 hours" in found.message


def test_loops_without_an_end_give_no_time_of_the_run() -> None:
    made = measured(0.5, LoopsSeen(steps=math.nan))
    assert made.state == "done"
    assert not any(name.endswith("of the run") for name in made.figures)


def test_steps_that_wait_for_data_get_a_note() -> None:
    [found] = measured(0.1, LoopsSeen(), wait_s=0.06).found
    assert found.severity == "info"
    assert "spend 60 % of their time waiting" in found.message


def test_short_steps_may_wait() -> None:
    assert not measured(0.001, LoopsSeen(), wait_s=0.0006).found


def test_loops_around_a_call_of_fit_multiply_its_steps() -> None:
    assert LoopsSeen(steps=100).within([3.0]) == LoopsSeen(steps=300, epoch=100)
    assert LoopsSeen(steps=100, epoch=10).within([3.0]) == LoopsSeen(steps=300, epoch=10)
    assert LoopsSeen(steps=100).within([]).steps == 100
    assert math.isnan(LoopsSeen(steps=100).within([math.nan]).steps)
