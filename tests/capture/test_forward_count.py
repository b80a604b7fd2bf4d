"""Forwards of a step beyond which none is captured."""

from __future__ import annotations

from mothtrap.capture.forward_count import OPEN_FORWARDS, ForwardCount
from mothtrap.core.facts.captures import Dropped


def test_so_many_are_captured_and_the_others_counted() -> None:
    count = ForwardCount()
    assert not count.is_enough
    assert [count.add() for _ in range(OPEN_FORWARDS + 2)] == [True] * OPEN_FORWARDS + [False] * 2
    assert count.is_enough
    told = count.take(7)
    assert isinstance(told, Dropped)
    assert (told.step, told.what, told.count) == (7, "forwards", 2)
    assert count.take(8) is None
    assert not count.is_enough
