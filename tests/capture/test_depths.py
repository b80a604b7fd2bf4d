"""Fully observed steps: the first ones, pairs, and those after a signal."""

from __future__ import annotations

import itertools
import math

import pytest

from mothtrap.capture.depths import (
    APART_IN_GROUP,
    FEWEST,
    FIRST,
    FIRST_S,
    LOOKED_AT,
    ROUND,
    SIGNALS_IN,
    TOGETHER,
    Depths,
)


def full_steps(
    depths: Depths,
    steps: range,
    *,
    plain_s: float = 1e-3,
    full_s: float = 3e-3,
    light_s: float = 1e-3,
    signals: tuple[int, ...] = (),
) -> list[int]:
    """Return the full steps among the first `steps`, each of which is made."""
    found = []
    for step in steps:
        if step > depths.full_at:
            depths.go_on(step)
        is_full = step == depths.full_at
        if is_full:
            found.append(step)
        own_s = full_s if is_full else light_s
        depths.watched(plain_s + own_s, own_s, 0.0, light=not is_full)
        depths.signal(step, "loss", math.nan if step in signals else 1.0)
    return found


def test_the_first_steps_are_full_and_then_pairs_that_grow_apart() -> None:
    found = full_steps(Depths(0.02), range(3000))
    assert found[:FIRST] == list(range(FIRST))
    pairs = found[FIRST:]
    assert pairs[:6] == [70, 71, 80, 81, 90, 91]
    firsts = [step for step in pairs if step - 1 not in pairs]
    assert {step + 1 for step in firsts} <= set(pairs)
    for before, step in itertools.pairwise(firsts):
        assert step - before <= max(ROUND[0], step // 10)
    assert firsts[-2:] == [2600, 2800]


def test_where_full_steps_are_cheap_all_are() -> None:
    found = full_steps(Depths(0.02), range(1000), plain_s=1.0, full_s=4e-3)
    assert found == list(range(1000))


def test_the_distance_is_no_larger_than_the_budget_asks_for() -> None:
    """20 steps of 100 ms pay, at 0.5 %, for two full steps that each take 4 ms more."""
    found = full_steps(Depths(0.02), range(5000), plain_s=0.1, full_s=5e-3)
    assert found[-4:] == [4960, 4961, 4980, 4981]


def test_a_pause_in_a_light_step_makes_full_ones_no_cheaper() -> None:
    depths = Depths(0.02)
    full_steps(depths, range(90))
    depths.watched(0.5, 0.499, 0.0, light=True)
    assert full_steps(depths, range(91, 130)) == [91, 100, 101, 110, 111, 120, 121]


def test_without_a_budget_every_step_is_full() -> None:
    assert full_steps(Depths(0.0), range(300)) == list(range(300))
    depths = Depths(0.02)
    depths.all_full = True
    assert full_steps(depths, range(300)) == list(range(300))


def test_expensive_steps_end_the_beginning_but_ten_are_seen() -> None:
    expensive = full_steps(Depths(0.02), range(FIRST), plain_s=10.0, full_s=FIRST_S)
    assert expensive[:FEWEST] == list(range(FEWEST))
    assert FEWEST + 2 not in expensive
    in_all = full_steps(Depths(0.02), range(FIRST), plain_s=5.0, full_s=FIRST_S / 30)
    assert in_all[:30] == list(range(30))
    assert 32 not in in_all


def test_a_signal_is_followed_by_full_steps() -> None:
    found = full_steps(Depths(0.02), range(3000), signals=(1234,))
    assert set(range(1235, 1235 + LOOKED_AT)) <= set(found)
    assert 1234 not in found
    assert found[found.index(1235 + LOOKED_AT - 1) + 1] == 1300


def test_the_first_steps_of_another_training_are_full() -> None:
    depths = Depths(0.02)
    depths.loss(0, "first", 1.0)
    full_steps(depths, range(1235))
    assert not depths.is_full(1236)
    depths.loss(1235, "second", 1.0)
    assert all(depths.is_full(step) for step in range(1236, 1236 + LOOKED_AT))
    assert not depths.is_full(1236 + LOOKED_AT)


def test_signals_make_no_more_than_one_step_in_ten_full() -> None:
    plain = full_steps(Depths(0.02), range(8000))
    often = tuple(range(100, 8000, 7))
    found = set(full_steps(Depths(0.02), range(8000), signals=often)) - set(plain)
    for start in range(0, 8000 - SIGNALS_IN, 50):
        assert len(found & set(range(start, start + SIGNALS_IN))) <= SIGNALS_IN / 10
    assert len(found) > 400


@pytest.mark.parametrize("plain_s", [1e-3, 1.0])
def test_in_a_group_the_step_number_alone_decides(plain_s: float) -> None:
    ranks = []
    for rank in range(2):
        depths = Depths(0.02)
        depths.in_group = True
        signals = (500, 777) if rank else ()
        full_s = 1e-3 * (1 + 9 * rank)
        ranks.append(
            full_steps(depths, range(2000), plain_s=plain_s, full_s=full_s, signals=signals)
        )
    assert ranks[0] == ranks[1]
    apart = [b - a for a, b in zip(ranks[0], ranks[0][1:], strict=False)]
    assert max(apart) == APART_IN_GROUP - TOGETHER + 1


def test_a_resumed_job_begins_with_full_steps() -> None:
    depths = Depths(0.02)
    depths.begin(5003)
    found = full_steps(depths, range(5003, 6001))
    assert found[:FIRST] == list(range(5003, 5003 + FIRST))
    assert found[-3:] == [5500, 5501, 6000]


def test_after_a_rest_two_steps_are_full() -> None:
    depths = Depths(0.02)
    full_steps(depths, range(300))
    depths.look_at(2345)
    assert full_steps(depths, range(2345, 2390)) == [2345, 2346]
