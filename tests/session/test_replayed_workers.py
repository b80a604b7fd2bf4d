"""Nothing is claimed of workers without a snapshot, or of results that include them."""

from __future__ import annotations

from mothtrap.core.replays import Difference, ReplayPlan, ReplayResult
from mothtrap.session.replayed_workers import compared_alone

PLAN = ReplayPlan(step=3, workers={0: "w0"}, scratch="")
OTHER = Difference(kind="gradient", name="w", found="a", expected="b")


def result(rank: int, match: bool | None, difference: Difference | None = None) -> ReplayResult:
    return ReplayResult(rank=rank, reached=True, match=match, difference=difference)


def test_results_of_workers_that_all_have_a_snapshot_are_left_as_they_are() -> None:
    results = (result(0, False, OTHER),)
    assert compared_alone(PLAN, results) == results


def test_a_worker_without_a_snapshot_compares_nothing_and_says_so() -> None:
    first, second = compared_alone(PLAN, [result(0, True), result(1, None)])
    assert first == result(0, True)
    assert second.match is None
    assert second.notes == (
        "rank 1 has no snapshot of this step: it repeated the step of rank 0, and its results "
        "are not compared",
    )


def test_gradients_that_others_have_a_part_in_are_no_difference() -> None:
    first, _ = compared_alone(PLAN, [result(0, False, OTHER), result(1, None)])
    assert (first.match, first.difference) == (None, None)
    assert "the ranks without a snapshot (1)" in first.notes[0]


def test_a_loss_is_a_workers_own() -> None:
    loss = Difference(kind="loss", name="t.py:3", found="a", expected="b")
    first, _ = compared_alone(PLAN, [result(0, False, loss), result(1, None)])
    assert (first.match, first.difference) == (False, loss)
