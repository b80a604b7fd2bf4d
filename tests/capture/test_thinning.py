"""Captures dropped by the governor are counted and reported."""

from __future__ import annotations

from mothtrap.capture.selection import Stream
from mothtrap.capture.thinning import REPORT_STEPS, Thinning
from mothtrap.core.facts.captures import Thinned
from mothtrap.core.steps import Mode

MEANS = Stream(
    name="mean of weights",
    kinds=("weight",),
    statistics=frozenset({"mean", "std"}),
    matches=lambda _: True,
)


def told(steps: int, skipped: range, *, ends: bool = True) -> list[Thinned]:
    """Report a capture that is due at every step and skipped at some."""
    thinning, found = Thinning(), []
    for step in range(steps):
        thinning.count([(MEANS, step not in skipped)], Mode.TRAIN, step)
        found += thinning.take(step)
    return found + (thinning.take(steps, last=True) if ends else [])


def test_nothing_is_told_of_a_stream_that_is_always_captured() -> None:
    assert told(1000, range(0)) == []


def test_the_first_skipped_capture_is_told_in_its_step() -> None:
    (fact,) = told(8, range(7, 8), ends=False)
    assert fact == Thinned(
        step=7,
        last_step=7,
        what="mean of weights",
        kinds=("weight",),
        statistics=("mean", "std"),
        count=1,
        due=8,
    )


def test_what_follows_is_told_in_bounded_pieces_that_add_up() -> None:
    steps, skipped = 1000, range(3, 900, 2)
    facts = told(steps, skipped)
    assert sum(fact.count for fact in facts) == len(skipped)
    assert sum(fact.due for fact in facts) == steps
    assert len(facts) <= steps / REPORT_STEPS + 2
    stretches = [(fact.step, fact.last_step) for fact in facts if fact.count]
    assert stretches[0] == (3, 3)
    assert stretches[-1][1] == skipped[-1]
    assert stretches == sorted(stretches)


def test_a_job_that_is_killed_lacks_the_counts_of_few_steps() -> None:
    facts = told(1000, range(1000), ends=False)
    assert 1000 - REPORT_STEPS <= sum(fact.count for fact in facts) <= 1000


def test_modes_are_counted_apart() -> None:
    thinning = Thinning()
    thinning.count([(MEANS, True)], Mode.TRAIN, 0)
    thinning.count([(MEANS, False)], Mode.EVAL, 0)
    assert [(fact.mode, fact.count, fact.due) for fact in thinning.take(0)] == [(Mode.EVAL, 1, 1)]
