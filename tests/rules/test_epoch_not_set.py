from __future__ import annotations

import pytest
from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.replicas import OrderRepeated
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.epoch_not_set import epoch_not_set


def worker(rank: int, passes: int, loader: str = "loader 1") -> Window:
    seen = [
        OrderRepeated(step=8 * number, loader=loader, epoch=0, passes=number, location="t.py:3")
        for number in range(2, passes + 1)
    ]
    return window(started(2), *seen, worker=rank, steps=40)


def check(*workers: Window) -> list[Finding]:
    return epoch_not_set().check(joined(*workers))


def test_the_same_order_in_every_epoch_is_reported() -> None:
    [found] = check(worker(0, 4), worker(1, 4))
    assert (found.severity, found.step, found.last_step) == (Severity.WARNING, 16, 32)
    assert (found.workers, found.location, found.evidence["passes"]) == ((0, 1), "t.py:3", 4)
    assert "set_epoch" in found.fixes[0]


def test_two_equal_passes_are_a_note() -> None:
    [found] = check(worker(0, 2), worker(1, 2))
    assert found.severity is Severity.INFO


def test_quiet_without_repeated_orders() -> None:
    assert check(worker(0, 1), worker(1, 1)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        check(window(started(1), steps=5))
