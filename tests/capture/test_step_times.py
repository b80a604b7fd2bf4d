"""Times of steps, by a clock that the test sets."""

from __future__ import annotations

from mothtrap.capture.step_times import StepTimes


def test_steps_what_passed_and_rests_are_told_apart() -> None:
    now = 10.0
    times = StepTimes(lambda: now)
    now = 12.0
    times.own_s = 7.0
    times.begin()
    now, times.own_s = 13.0, 0.5
    assert times.closed() == (3.0, 0.5, 1.0, 0.5)
    now, times.own_s = 15.0, 0.75
    assert times.closed() == (2.0, 0.25, 2.0, 0.25)
    now, times.own_s = 16.0, 1.0
    assert times.passed() == (1.0, 0.25)
    assert times.closed() == (1.0, 0.25, 0.0, 0.0)
    assert times.wall_s == 4.0
