from __future__ import annotations

import pytest
from tests.rules.ranks import check
from tests.rules.test_ranks_diverge import started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import BatchRows
from mothtrap.core.findings import Severity
from mothtrap.rules.uneven_batches_on_ranks import uneven_batches_on_ranks

RULE = uneven_batches_on_ranks()


def rows(*changes: tuple[int, int]) -> list[Fact]:
    return [
        BatchRows(step=step, rows=count, rank=0, location="train.py:5") for step, count in changes
    ]


def test_a_short_last_batch_on_one_worker_is_a_note() -> None:
    [found] = check(RULE, rows((0, 32)), rows((0, 32), (9, 8), (10, 32), (19, 8)))
    assert (found.severity, found.step, found.last_step, found.count) == (Severity.INFO, 9, 19, 2)
    assert (found.workers, found.location) == ((1,), "train.py:5")
    assert "rank 1 averages over 8 rows, rank 0 over 32" in found.message
    assert "counts 4 times as much" in found.message


def test_quiet_on_even_batches_on_small_differences_and_on_batches_by_tokens() -> None:
    assert check(RULE, rows((0, 32), (9, 8)), rows((0, 32), (9, 8))) == []
    assert check(RULE, rows((0, 32)), rows((0, 30))) == []
    assert check(RULE, rows((0, 32)), rows((0, 8))) == []
    by_tokens = [(step, 20 + step % 3) for step in range(18)]
    assert check(RULE, rows((0, 21)), rows(*by_tokens, (18, 8), (19, 21))) == []


def test_steps_that_a_worker_has_not_reached_are_not_compared() -> None:
    assert check(RULE, rows((0, 32)), rows((0, 32), (25, 8))) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        RULE.check(window(started(1), steps=5))
    with pytest.raises(NotEnoughData, match="batch sizes of two ranks"):
        check(RULE, rows((0, 32)), [])
    with pytest.raises(NotApplicable, match="do not average"):
        check(RULE, rows((0, 32)), rows((0, 32), (9, 8)), common=list)
