"""When to capture."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.schedules import SCHEDULES

from mothtrap.core.schedule import FAR, Schedule


def due(schedule: Schedule, until: int = 400) -> list[int]:
    return [step for step in range(until) if schedule.is_due(step)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(stop=3), [0, 1, 2]),
        (Schedule(every=100), [0, 100, 200, 300]),
        (Schedule(every=100, start=30), [30, 130, 230, 330]),
        (Schedule(every=100, start=30, stop=230), [30, 130]),
        (Schedule(steps=(7, 3)), [3, 7]),
        (Schedule(steps=(399,), start=10, stop=12), [399]),
        (Schedule(every=200, steps=(3, 200)), [0, 3, 200]),
        (
            Schedule(logarithmic=True),
            [*range(10), *range(10, 100, 10), 100, 200, 300],
        ),
        (Schedule(logarithmic=True, start=350), [*range(350, 360), 360, 370, 380, 390]),
    ],
)
def test_a_schedule_names_its_steps(schedule: Schedule, expected: list[int]) -> None:
    assert due(schedule) == expected


def is_one_digit(number: int) -> bool:
    return number >= 0 and not str(number)[1:].strip("0")


def is_named(schedule: Schedule, step: int) -> bool:
    """Return whether the schedule itself names a step for capture."""
    if step in schedule.steps:
        return True
    if step < schedule.start or (schedule.stop is not None and step >= schedule.stop):
        return False
    if schedule.logarithmic:
        return is_one_digit(step - schedule.start)
    if schedule.every is not None:
        return (step - schedule.start) % schedule.every == 0
    return not schedule.steps


@given(SCHEDULES)
def test_a_schedule_names_the_steps_that_its_words_say(schedule: Schedule) -> None:
    assert due(schedule) == [step for step in range(400) if is_named(schedule, step)]


@given(SCHEDULES, st.integers(0, 300))
def test_the_steps_that_are_due_next_are_the_first_ones(schedule: Schedule, step: int) -> None:
    following = schedule.next_due(step)
    skipped = range(step, min(following.start, 1500))
    assert not any(is_named(schedule, n) for n in skipped)
    assert all(is_named(schedule, n) for n in range(following.start, min(following.stop, 1500)))
    nothing_follows = following == range(FAR, FAR)
    assert nothing_follows or not schedule.is_over(step)
    if schedule.stop is None or step >= schedule.stop:
        assert schedule.is_over(step) == nothing_follows


def test_where_each_step_is_due_all_that_follow_are_told_at_once() -> None:
    assert 10**9 in Schedule().next_due(0)
    assert Schedule(start=5, stop=9).next_due(2) == range(5, 9)
    assert Schedule(every=1, steps=(3,), start=7).next_due(0) == range(3, 4)


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        (Schedule(stop=5), 4),
        (Schedule(steps=(3, 7)), 7),
        (Schedule(every=2, stop=5, steps=(9,)), 9),
        (Schedule(every=2, steps=(9,)), None),
        (Schedule(), None),
    ],
)
def test_a_schedule_knows_when_it_is_over(schedule: Schedule, last: int | None) -> None:
    over = [step for step in range(50) if schedule.is_over(step)]
    assert over == ([] if last is None else list(range(last + 1, 50)))
    assert not any(schedule.is_due(step) for step in over)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule(every=0), "every must be 1 step or more, not 0"),
        (Schedule(every=2, logarithmic=True), "every and logarithmic cannot be combined"),
        (Schedule(start=-1), "start must be step 0 or later, not -1"),
        (Schedule(start=5, stop=5), r"stop must be later than start \(5\), not 5"),
        (Schedule(steps=(1, -2)), "steps must be 0 or more, not -2"),
    ],
)
def test_what_makes_no_sense_is_said(schedule: Schedule, words: str) -> None:
    found = schedule.complaint()
    assert found is not None
    assert re.match(words, found)


def test_what_makes_sense_is_not_complained_of() -> None:
    assert Schedule(every=3, start=2, stop=9, steps=(100,)).complaint() is None
