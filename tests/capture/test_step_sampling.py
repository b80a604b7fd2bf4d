"""Unwatched steps: their number, and which steps they are."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mothtrap.capture.step_sampling import (
    AFTER_CUTS,
    CREDIT_S,
    DENSE_STEPS,
    EXCESS,
    FIRST_STEPS,
    MOST_CUT,
    MOST_LONG,
    ROUND,
    SAMPLINGS_REMEMBERED,
    TOGETHER,
    LongSteps,
    StepSampler,
)

START = DENSE_STEPS


def overdrawn(overhead: float = 0.02) -> StepSampler:
    """Return a sampler of a job that has used up its credit."""
    sampler = StepSampler(overhead)
    sampler.watched(2 * CREDIT_S, 2 * CREDIT_S)
    return sampler


def watched(sampler: StepSampler, plain_s: float, own_s: float, steps: int = FIRST_STEPS) -> None:
    for _ in range(steps):
        sampler.watched(plain_s + own_s, own_s)


def steps_watched(sampler: StepSampler, plain_s: float, own_s: float, steps: int) -> list[int]:
    """Return the watched steps among that many, from `START` on."""
    found, step = [], START
    while step < START + steps:
        found.append(step)
        sampler.watched(plain_s + own_s, own_s)
        step = sampler.next_after(step)
    return found


def test_the_first_steps_are_watched_whatever_they_cost() -> None:
    sampler = StepSampler(0.02)
    for step in range(FIRST_STEPS):
        assert sampler.next_after(step) == step + 1
        sampler.watched(1.0, 0.5)
    assert sampler.next_after(FIRST_STEPS) > FIRST_STEPS + 1


def test_every_step_is_watched_until_the_credit_is_used_up() -> None:
    sampler, step, own_s = StepSampler(0.02), 0, 0.0
    while sampler.next_after(step) == step + 1:
        sampler.watched(2e-3, 1e-3)
        step, own_s = step + 1, own_s + 1e-3
    assert own_s == pytest.approx(CREDIT_S + 0.02 * 2e-3 * step, rel=0.02)


def test_a_machine_that_others_use_too_does_not_use_up_the_credit() -> None:
    sampler, step, own_s = StepSampler(0.02), 0, 0.0
    while sampler.next_after(step) == step + 1:
        sampler.watched(2e-3, 1e-3, busy=0.25)
        step, own_s = step + 1, own_s + 1e-3
    assert 0.25 * own_s == pytest.approx(CREDIT_S, rel=0.1)


def test_one_step_in_ten_is_watched_at_first() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    step, found = FIRST_STEPS, 0
    while step < START:
        found += 1
        sampler.watched(2e-3, 1e-3)
        step = sampler.next_after(step)
    assert found == pytest.approx((START - FIRST_STEPS) / 10, abs=2)


@pytest.mark.parametrize(("overhead", "plain_s"), [(0.0, 1e-6), (0.02, 0.02), (0.2, 1e-3)])
def test_without_a_limit_or_where_hooks_are_cheap_beside_steps_all_are(
    overhead: float, plain_s: float
) -> None:
    sampler = overdrawn(overhead)
    watched(sampler, plain_s, own_s=1e-3)
    assert sampler.next_after(START) == START + 1


@given(
    st.floats(0.001, 0.15),
    st.floats(1e-5, 1e-2),
    st.floats(1.01, 50.0),
)
def test_the_budget_holds_and_steps_are_round(
    overhead: float, plain_s: float, excess: float
) -> None:
    own_s = EXCESS * overhead * plain_s * excess
    sampler = overdrawn(overhead)
    watched(sampler, plain_s, own_s)
    found = steps_watched(sampler, plain_s, own_s, 4 * ROUND[-1])
    own, plain = len(found) * own_s, 4 * ROUND[-1] * plain_s
    assert own <= 1.001 * overhead * plain
    assert 12.5 * own >= overhead * plain  # the next smaller number is 2.5 times less at least
    every = found[TOGETHER] - found[0]
    assert every in ROUND
    assert {step % every for step in found} == set(range(TOGETHER))


def test_the_two_steps_of_a_pair_stay_together_when_hooks_take_longer() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    [first] = [step for step in steps_watched(sampler, 1e-3, 1e-3, 150) if step % 100 == 0][1:]
    sampler.watched(0.2, 0.199)
    assert sampler.next_after(first) == first + 1
    sampler.watched(2e-3, 1e-3)
    assert sampler.next_after(first + 1) > first + 100


def test_runs_with_different_costs_have_steps_in_common() -> None:
    slow, fast = overdrawn(), overdrawn()
    watched(slow, 1e-3, 1e-3)
    watched(fast, 1e-3, 4e-3)
    common = set(steps_watched(slow, 1e-3, 1e-3, 5000)) & set(steps_watched(fast, 1e-3, 4e-3, 5000))
    assert len(common) == 2 * 5000 // 500


def test_what_the_last_step_costs_after_its_end_counts() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    assert sampler.next_after(START + 3) == START + 100
    for _ in range(16):
        sampler.watched(2e-3, 1e-3)
        sampler.watched(2e-3, 1e-3)
        sampler.rested(1e-3)
    assert sampler.next_after(START + 3) == START + 200


def test_a_long_step_is_known_by_those_that_were_watched() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    assert sampler.long_s() == pytest.approx(4e-3)


def test_a_job_whose_rests_are_cut_short_is_watched_for_a_while() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)

    def ended(steps: int) -> None:
        sampler.ended(98, steps, 1e-3 * steps)
        watched(sampler, 1e-3, 1e-3, TOGETHER)

    for _ in range(MOST_CUT - 1):
        ended(5)
    ended(98)
    for _ in range(MOST_CUT):
        assert sampler.next_after(START + 2) > START + 3
        ended(5)
    assert sampler.next_after(START + 2) == START + 3
    watched(sampler, 1e-3, 1e-3, AFTER_CUTS)
    assert sampler.next_after(START + 2) > START + 3


def test_steps_are_watched_together_though_the_first_of_them_took_long() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    assert sampler.next_after(START + 109) == START + 200
    sampler.ended(90, 90, 90e-3)
    sampler.watched(1.0, 0.5)
    assert sampler.next_after(START + 200) == START + 201
    sampler.watched(2e-3, 1e-3)
    assert sampler.next_after(START + 201) > START + 202


def test_what_a_rest_shows_of_the_plain_step_counts() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    assert sampler.next_after(START + 2) == START + 100
    sampler.ended(98, 98, 98 * 0.5e-3)  # watched, the same steps took 2 ms: own is 1.5
    watched(sampler, 1e-3, 1e-3, TOGETHER)
    assert sampler.next_after(START + 2) == START + 500


def test_steps_that_became_shorter_while_all_are_watched_begin_to_rest() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    sampler.ended(98, 98, 98 * 0.1)
    watched(sampler, 0.1, 1e-3)
    assert sampler.next_after(START + 2) == START + 3
    watched(sampler, 1e-3, 1e-3)
    assert sampler.next_after(START + 2) == START + 100


def test_steps_that_became_longer_are_known_once_a_rest_has_shown_it() -> None:
    sampler = overdrawn()
    watched(sampler, 1e-3, 1e-3)
    sampler.ended(98, 98, 98e-3)
    watched(sampler, 0.1, 1e-3)
    assert sampler.next_after(START + 2) > START + 3
    for _ in range(SAMPLINGS_REMEMBERED):
        sampler.ended(98, 98, 98 * 0.1)
    watched(sampler, 0.1, 1e-3, TOGETHER)
    assert sampler.next_after(START + 2) == START + 3


def test_single_long_steps_begin_passes_and_many_are_steps_that_became_longer() -> None:
    long = LongSteps(1.0)
    assert not any(long.are_many(2.0 if step % 10 == 0 else 0.5) for step in range(1000))
    assert [long.are_many(2.0) for _ in range(MOST_LONG + 1)] == [False] * MOST_LONG + [True]
