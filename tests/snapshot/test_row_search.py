"""The rows that make a step go wrong are found, and no others are blamed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from mothtrap.core.replays import ReplayResult
from mothtrap.snapshot.row_search import (
    MAX_TRIALS,
    Guilty,
    guilty,
    has_rows_to_blame,
    listed,
    went_wrong,
)


def search(
    fails: Callable[[set[int], bool], bool | None], count: int, candidates: Sequence[int] = ()
) -> Guilty:
    def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
        return fails(set(rows), repeat)

    return guilty(trial, count, candidates)


@pytest.mark.parametrize("candidates", [(), (17,), (3,), (3, 17), tuple(range(32))])
def test_one_bad_row_is_found_whatever_is_suspected(candidates: tuple[int, ...]) -> None:
    found = search(lambda rows, _: 17 in rows, 32, candidates)
    assert (found.rows, found.evidence) == ((17,), "alone")
    assert found.sentence == "row 17 alone reproduces it; without it, the step is fine"
    assert found.trials <= 30


def test_a_suspected_row_needs_few_trials() -> None:
    assert search(lambda rows, _: 500 in rows, 1024, (500,)).trials <= 3


@pytest.mark.parametrize("candidates", [(), (2, 9)])
def test_two_bad_rows_are_found_each_for_itself(candidates: tuple[int, ...]) -> None:
    found = search(lambda rows, _: bool({2, 9} & rows), 16, candidates)
    assert (found.rows, found.evidence) == ((2, 9), "alone")


@pytest.mark.parametrize("candidates", [(), (2, 9)])
def test_a_pair_that_fails_together_is_told_as_a_pair(candidates: tuple[int, ...]) -> None:
    found = search(lambda rows, _: {2, 9} <= rows, 16, candidates)
    assert (found.rows, found.evidence) == ((2, 9), "together")
    assert "together, none of them alone" in found.sentence


@pytest.mark.parametrize("candidates", [(), tuple(range(24)), (4,)])
def test_where_any_rows_fail_no_row_is_accused(candidates: tuple[int, ...]) -> None:
    found = search(lambda rows, _: True, 24, candidates)
    assert (found.rows, found.evidence) == ((), "none")
    assert found.sentence == "no single row of the 24 is the cause"


def test_where_only_the_whole_batch_fails_no_row_is_accused() -> None:
    found = search(lambda rows, _: len(rows) == 12, 12)
    assert (found.rows, found.evidence) == ((), "none")


@pytest.mark.parametrize("candidates", [(), (5,)])
def test_a_script_that_needs_its_batch_size_gets_rows_repeated(candidates: tuple[int, ...]) -> None:
    found = search(lambda rows, repeat: 5 in rows if repeat else None, 16, candidates)
    assert (found.rows, found.evidence) == ((5,), "alone")


def test_alone_proves_nothing_where_every_row_alone_fails() -> None:
    # The deviation over a batch of one row is NaN, whichever row it is.
    def fails(rows: set[int], repeat: bool) -> bool:
        return 7 in rows or (len(rows) == 1 and not repeat)

    found = search(fails, 16, (7,))
    assert (found.rows, found.evidence) == ((7,), "alone")

    found = search(lambda rows, _: 7 in rows or len(rows) == 1, 16, (7,))
    assert (found.rows, found.evidence) == ((7,), "left out")


def test_the_search_ends() -> None:
    # Every 7th row together with its neighbor: far more pairs than the search tries.
    def fails(rows: set[int], _: bool) -> bool:
        return any({row, row + 1} <= rows for row in range(0, 700, 7))

    assert search(fails, 700).trials <= MAX_TRIALS + 1


def test_rows_are_listed_as_people_do() -> None:
    assert [listed(rows) for rows in ((), (4,), (4, 6), (1, 4, 6))] == [
        "no row",
        "row 4",
        "rows 4 and 6",
        "rows 1, 4 and 6",
    ]


NAN = ReplayResult(reached=True, nonfinite=True, operation="torch.log", location="a.py:3")
RAISED = ReplayResult(reached=True, exception="IndexError: of 7", raised_at="a.py:3")


@pytest.mark.parametrize(
    ("trial", "watched", "answer"),
    [
        (NAN, NAN, True),
        (replace(NAN, nonfinite=False), NAN, False),
        (replace(NAN, operation="torch.std"), NAN, None),
        (replace(NAN, location="a.py:9"), NAN, None),
        (RAISED, NAN, None),
        (replace(NAN, reached=False), NAN, None),
        (replace(RAISED, exception="IndexError: of 3"), RAISED, True),
        (replace(RAISED, exception="RuntimeError: size"), RAISED, None),
        (replace(RAISED, raised_at="a.py:4"), RAISED, None),
        (NAN, RAISED, None),
        (ReplayResult(reached=True), RAISED, False),
    ],
)
def test_a_trial_counts_that_goes_wrong_in_the_same_way(
    trial: ReplayResult, watched: ReplayResult, answer: bool | None
) -> None:
    assert went_wrong(trial, watched, closely=True) is answer


def test_without_a_watch_any_value_that_is_not_finite_counts() -> None:
    assert went_wrong(replace(NAN, operation=None), NAN, closely=False) is True


def test_rows_are_not_to_blame_for_weights() -> None:
    assert has_rows_to_blame(replace(NAN, batch_rows=8))
    assert not has_rows_to_blame(replace(NAN, batch_rows=1))
    assert not has_rows_to_blame(replace(NAN, batch_rows=8, holder="weight fc.weight"))
