from __future__ import annotations

import time

import pytest

from mothtrap.core.errors import ConfigError
from mothtrap.core.quiet_hours import check_hours, is_within


def at(hour: int, minute: int = 0) -> float:
    return time.mktime((2026, 1, 15, hour, minute, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("22:00-07:00", [(22, 0), (23, 59), (0, 0), (6, 59)], [(7, 0), (21, 59), (12, 0)]),
        ("12:00-13:30", [(12, 0), (13, 29)], [(13, 30), (11, 59), (0, 0)]),
        ("", [], [(0, 0), (12, 0)]),
    ],
)
def test_hours_may_pass_midnight(
    hours: str, inside: list[tuple[int, int]], outside: list[tuple[int, int]]
) -> None:
    assert all(is_within(hours, at(*time_)) for time_ in inside)
    assert not any(is_within(hours, at(*time_)) for time_ in outside)


@pytest.mark.parametrize("text", ["22-7", "24:00-07:00", "22:00", "22:60-07:00", "x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="22:00-07:00"):
        check_hours(text)
    check_hours("")
