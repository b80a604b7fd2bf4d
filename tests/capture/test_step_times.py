"""Times of steps, by a clock that the test sets."""

from __future__ import annotations

from mothtrap.capture.step_times import StepTimes


def test_steps_what_passed_and_rests_are_told_apart() -> None:
    now = 10.0
    times = StepTimes(lambda: now)
    now = 12.0
    times.begin()
    now = 13.0
    assert times.closed(0.5) == (3.0, 0.5)
    assert times.passed(0.5) == (1.0, 0.5)
    now = 15.0
    assert times.closed(0.75) == (2.0, 0.25)
    now = 16.0
    assert times.closed(1.0) == (1.0, 0.25)
    assert times.passed(1.0) == (3.0, 0.5)
    assert times.wall_s == 4.0
