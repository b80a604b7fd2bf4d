"""Steps whose processes cannot be forked are narrowed down by starting them again."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.session.fault_localization import MAX_STARTS, narrowed

PLAN = ReplayPlan(step=3, workers={0: "w0", 1: "w1"}, scratch="", narrow=True)


class Played:
    """Imitates a job of two processes in which row 2 of the second makes NaN."""

    def __init__(self) -> None:
        self.plans: list[ReplayPlan] = []

    def __call__(self, plan: ReplayPlan) -> Sequence[ReplayResult]:
        self.plans.append(plan)
        bad = not plan.rows or 2 in plan.rows
        first = ReplayResult(reached=True, nonfinite=bad, operation="torch.distributed.all_reduce")
        second = ReplayResult(
            rank=1,
            reached=True,
            nonfinite=bad,
            operation="torch.log" if bad else None,
            location="train.py:5",
            told=("torch.log made NaN",),
            suspects=(2,) if bad else (),
            batch_rows=4,
        )
        return [first, second]


def uncopied(rank: int, **found: bool) -> ReplayResult:
    return ReplayResult(rank=rank, reached=True, uncopied=True, match=True, **found)


def test_the_job_is_started_again_and_its_rows_are_verified() -> None:
    play = Played()
    first, second = narrowed(PLAN, [uncopied(0, nonfinite=True), uncopied(1, nonfinite=True)], play)
    assert (second.operation, second.rows, second.match) == ("torch.log", (2,), True)
    assert second.told[-1] == "row 2 alone reproduces it; without it, the step is fine"
    assert first.operation == "torch.distributed.all_reduce"
    assert all(plan.watch and not plan.narrow for plan in play.plans)
    assert play.plans[0].rows == ()
    assert len(play.plans) <= 1 + MAX_STARTS


def test_a_step_in_order_is_not_replayed() -> None:
    play = Played()
    results = (uncopied(0), uncopied(1))
    assert narrowed(PLAN, results, play) == results
    assert play.plans == []


def test_what_a_copy_has_found_is_kept() -> None:
    play = Played()
    results = (ReplayResult(reached=True, nonfinite=True, operation="torch.exp"),)
    assert narrowed(PLAN, results, play) == results
    assert play.plans == []


def test_a_job_that_does_not_come_there_again_leaves_results_as_they_are() -> None:
    results = (uncopied(0, nonfinite=True),)
    assert narrowed(PLAN, results, lambda plan: ()) == results
