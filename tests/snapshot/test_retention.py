from __future__ import annotations

import pytest

from mothtrap.snapshot.retention import Kept, kind_of, superfluous


def kept(name: str, reason: str, size: int = 10) -> Kept:
    return Kept(name=name, reason=reason, size_bytes=size, created_s=float(ord(name)))


def names(
    there: list[Kept], coming: Kept, *, most: int = 100, most_bytes: float = 1e9
) -> list[str]:
    return [k.name for k in superfluous(there, coming, most=most, most_bytes=most_bytes)]


def test_nothing_goes_while_there_is_room() -> None:
    assert names([kept("a", "step")], kept("b", "step"), most=2, most_bytes=20) == []


def test_the_oldest_goes_first() -> None:
    there = [kept("b", "step"), kept("a", "step"), kept("c", "step")]
    assert names(there, kept("d", "step"), most=2) == ["a", "b"]
    assert names(there, kept("d", "step"), most_bytes=30) == ["a"]


def test_the_only_one_of_a_reason_stays_while_there_are_others() -> None:
    there = [kept("a", "finding NUM001"), kept("b", "step"), kept("c", "step")]
    assert names(there, kept("d", "request"), most=3) == ["b"]
    assert names(there, kept("d", "request"), most=2) == ["b", "a"]


@pytest.mark.parametrize("onset", ["unsound step: the loss is NaN", "exception"])
def test_the_only_one_of_an_onset_never_goes(onset: str) -> None:
    assert names([kept("a", onset)], kept("b", "step"), most=1) == []
    assert names([kept("a", onset)], kept("b", "step"), most_bytes=5) == []
    assert names([kept("a", onset), kept("b", onset)], kept("c", "step"), most=1) == ["b"]


def test_the_first_step_that_went_wrong_stays() -> None:
    """A guard that skipped 12 steps kept four later ones, and the first could not be replayed."""
    onsets = [kept(name, f"unsound step: {name}") for name in "abcd"]
    assert names(onsets, kept("e", "unsound step: e"), most=4) == ["b"]
    assert names(onsets[:1], kept("e", "unsound step: e"), most=1) == ["a"]


def test_a_base_gives_way_to_the_next_one_and_counts_for_nothing() -> None:
    there = [*(kept(name, "base") for name in "abcd"), kept("e", "step")]
    assert names(there, kept("f", "base"), most=1) == ["a"]
    assert names(there, kept("f", "request"), most=2) == []
    assert names(there, kept("f", "request"), most_bytes=30) == ["a", "b", "c"]


def test_one_of_the_same_place_is_replaced_by_itself() -> None:
    assert names([kept("a", "step")], kept("a", "step"), most=1) == []


def test_what_differs_from_case_to_case_is_no_kind() -> None:
    assert kind_of("unsound step: the loss is NaN (a.py:1)") == "unsound step"
    assert kind_of("finding OPT101 (step 3 is gone)") == "finding OPT101"
