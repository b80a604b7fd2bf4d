"""When to capture."""

from __future__ import annotations

import re

import pytest

from mothtrap.core.schedule import Schedule


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
        (Schedule(every=2, logarithmic=True), "every and logarithmic exclude each other"),
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
