"""Multiples of a number of steps, where not every step is inspected."""

from __future__ import annotations

from mothtrap.adapters.torch.job.multiples import Multiples


def test_where_each_step_is_looked_at_multiples_pass_at_their_steps() -> None:
    multiples = Multiples(10)
    assert [step for step in range(35) if multiples.passed(step)] == [9, 19, 29]


def test_a_multiple_between_two_looks_has_passed_at_the_later_one() -> None:
    multiples = Multiples(10)
    steps = [0, 1, 8, 12, 13, 40, 41]
    assert [step for step in steps if multiples.passed(step)] == [12, 40]


def test_none_has_passed_where_a_job_goes_on_in_the_middle() -> None:
    multiples = Multiples(10)
    assert [step for step in range(35, 45) if multiples.passed(step)] == [39]
