"""Stretches of steps that were not watched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mothtrap.core.facts.captures import Unwatched
from mothtrap.reader.gaps import gaps, watched_steps


def run(stretches: Sequence[tuple[int, int]]) -> Any:
    facts = [Unwatched(step=first, last_step=last, seconds=0.1) for first, last in stretches]
    return SimpleNamespace(observations=lambda _: facts)


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [
        ([], ()),
        ([(64, 69), (72, 79)], ((64, 69), (72, 79))),
        ([(72, 79), (64, 69)], ((64, 69), (72, 79))),
        ([(64, 69), (70, 79)], ((64, 79),)),
        ([(64, 69), (64, 69), (65, 66)], ((64, 69),)),
    ],
)
def test_stretches_are_ascending_and_apart(
    stretches: list[tuple[int, int]], expected: tuple[tuple[int, int], ...]
) -> None:
    assert gaps(run(stretches)) == expected


def test_of_many_the_neighbors_become_one() -> None:
    found = gaps(run([(10 * n, 10 * n + 7) for n in range(10)]), most=4)
    assert found == ((0, 27), (30, 57), (60, 87), (90, 97))


def test_watched_steps_are_all_but_those_of_the_gaps_in_the_run() -> None:
    made = run([(64, 69), (72, 200)])
    made.steps = 100
    assert watched_steps(made) == 100 - 6 - 28
