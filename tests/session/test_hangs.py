"""Real jobs of several processes that hang, or are slow and healthy; see `bench/hangs.py`."""

from __future__ import annotations

import pytest
from bench import hangs

HANGS = ("slow_loader_hangs", "missing_collective", "two_groups")


@pytest.mark.full
@pytest.mark.parametrize("name", HANGS)
def test_the_stuck_worker_is_named_with_its_line(name: str) -> None:
    outcome = hangs.run(hangs.Case(name, 2, 0))
    assert outcome.is_named, outcome.message


@pytest.mark.full
def test_a_worker_that_computes_while_others_wait_is_not_stuck() -> None:
    outcome = hangs.run(hangs.Case("healthy_evaluation", 2, 0))
    assert outcome.is_right, outcome.message


def test_all_kinds_of_hangs_are_planted() -> None:
    assert len(hangs.HANGS) == 20
    assert len(hangs.HEALTHY) == 6
    assert {case.ranks for case in hangs.HANGS} == {2, 3, 4, 8}
