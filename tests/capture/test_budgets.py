"""Time budgets: users' captures are counted separately, and collections may have their own."""

from __future__ import annotations

import pytest

from mothtrap.capture.budgets import Budgets
from mothtrap.capture.selection import LOGGED, Stream, of_collection, streams
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.needs import Need


def own() -> Stream:
    return streams(Config(), [Need(kinds=("weight",), statistics=("mean",))])[0]


def collection(**fields: object) -> Stream:
    return of_collection("mine", Collection(tensors=("losses",), raw=True, **fields))[0]  # type: ignore[arg-type]


def captures(budgets: Budgets, stream: Stream, cost_s: float, steps: int = 200) -> int:
    """Return how often a stream captures in steps of one second, at a given cost."""
    made = 0
    for _ in range(steps):
        admitted = budgets.admits(stream)
        if admitted:
            made += 1
            budgets.charge(stream, cost_s)
        budgets.earn(1.0, cost_s * admitted)
    return made


def test_what_a_user_asks_for_is_captured_whatever_it_costs() -> None:
    budgets = Budgets(0.02)
    assert captures(budgets, collection(), 10.0) == 200
    assert captures(budgets, LOGGED, 1.0) == 200
    assert budgets.asked_s == pytest.approx(2200.0)


def test_a_collection_with_an_overhead_is_thinned_to_it() -> None:
    budgets = Budgets(0.02)
    made = captures(budgets, collection(overhead=0.1), 0.5)
    assert 35 <= made <= 45  # a fifth
    assert budgets.asked_s == pytest.approx(made * 0.5)


def test_what_users_ask_for_takes_nothing_from_the_captures_of_rules() -> None:
    def made(asked_s: float) -> int:
        budgets, found = Budgets(0.02), 0
        for _ in range(200):
            admitted = budgets.admits(own())
            found += admitted
            budgets.charge(collection(), asked_s)
            if admitted:
                budgets.charge(own(), 0.1)
            budgets.earn(1.0, asked_s + 0.1 * admitted)
        return found

    assert 35 <= made(0.0) <= 45
    assert made(0.9) == made(0.0)


def test_costs_before_the_first_step_are_not_counted() -> None:
    budgets = Budgets(0.02)
    budgets.charge(collection(), 5.0)
    budgets.begin()
    budgets.charge(collection(), 1.0)
    assert budgets.asked_s == 1.0
