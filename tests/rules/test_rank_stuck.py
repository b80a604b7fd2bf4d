from __future__ import annotations

from dataclasses import replace

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.stalls import CollectiveCall, WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.rank_stuck import RankStuck


def started(size: int) -> WorkerStarted:
    return WorkerStarted(
        step=0, rank=0, world_size=size, pid=1, host="h", framework="torch", versions={}
    )


def state(rank: int, call: CollectiveCall | None = None, **more: object) -> WorkerStalled:
    values = {"step": 8, "waited_s": 31.0, "is_idle": True, "still_s": 30.0, "function": "step"}
    values |= {"location": "train.py:9", "collective": call}
    return WorkerStalled(rank=rank, **(values | more))  # type: ignore[arg-type]


def waits(number: int = 14, name: str = "all_reduce", group: str = "0") -> CollectiveCall:
    return CollectiveCall(name=name, number=number, group=group, waits=True)


def elsewhere(rank: int, number: int = 13, **more: object) -> WorkerStalled:
    call = CollectiveCall(name="all_reduce", number=number, group="0")
    return state(rank, call, **{"function": "load", "location": "data.py:8", **more})


def job(*facts: tuple[object, ...], size: int = 0, steps: int = 9) -> Window:
    workers = [
        window(started(size or len(facts)), *own, worker=rank, steps=steps)  # type: ignore[arg-type]
        for rank, own in enumerate(facts)
    ]
    return replace(workers[0], peers=tuple(workers[1:]))


def check(*facts: tuple[object, ...], size: int = 0) -> list[Finding]:
    return RankStuck().check(job(*facts, size=size))


def test_names_the_worker_that_is_elsewhere_with_its_line() -> None:
    (found,) = check((state(0, waits()),), (state(1, waits()),), (elsewhere(2),))
    assert (found.severity, found.workers, found.step) == (Severity.ERROR, (2,), 8)
    assert found.location == "data.py:8"
    assert found.message == (
        "rank 2 does not reach collective 14, all_reduce: rank 2 is in `load` (data.py:8); "
        "ranks 0 and 1 have waited for 31 s (train.py:9)"
    )


def test_a_worker_that_works_is_not_stuck() -> None:
    assert check((state(0, waits()),), (elsewhere(1, is_idle=False),)) == []


def test_quiet_until_all_workers_have_said_where_they_are() -> None:
    assert check((state(0, waits()),), (), size=2) == []
    resumed = elsewhere(1, has_resumed=True)
    assert check((state(0, waits()),), (elsewhere(1), resumed)) == []


def test_a_worker_that_has_ended() -> None:
    ended = WorkerEnded(
        step=9,
        steps=9,
        own_s=0.0,
        wall_s=1.0,
        exception="ValueError: no",
        location="train.py:3",
        at_s=100.0,
    )
    assert check((state(0, waits(), at_s=104.0),), (ended,)) == [], "it may end as well"
    (found,) = check((state(0, waits(), at_s=106.0),), (ended,))
    assert (found.workers, found.location) == ((1,), "train.py:3")
    assert found.message.startswith("rank 1 has ended with ValueError: no, but rank 0 has")


def test_workers_that_call_further_collectives_are_not_stuck() -> None:
    assert check((state(0, waits(14), still_s=1.0),), (state(1, waits(13), still_s=1.0),)) == []


def test_a_collective_that_one_worker_leaves_out() -> None:
    (found,) = check((state(0, waits(14)),), (state(1, waits(13)),), (state(2, waits(14)),))
    assert found.workers == (1,)
    assert "rank 1 has called 13 collectives, the others 14" in found.message


def test_groups_that_wait_for_each_other() -> None:
    other = state(1, waits(3, group="2"), location="train.py:12")
    (found,) = check((state(0, waits(3, group="1")),), (other,))
    assert found.workers == (0, 1)
    assert "rank 0 waits in all_reduce (train.py:9)" in found.message
    assert "rank 1 waits in all_reduce (train.py:12)" in found.message


def test_of_more_than_two_workers_the_odd_one_is_named() -> None:
    barrier = state(1, waits(14, "barrier"), location="train.py:12")
    (found,) = check((state(0, waits()),), (barrier,), (state(2, waits()),))
    assert (found.workers, found.location) == ((1,), "train.py:12")
    assert "rank 1 waits in barrier (train.py:12)" in found.message


def test_all_in_the_same_collective_is_a_slow_network() -> None:
    assert check((state(0, waits()),), (state(1, waits()),)) == []


def test_without_the_flight_recorder_stacks_decide() -> None:
    unnumbered = state(0, waits(0, "barrier", ""))
    (found,) = check((unnumbered,), (elsewhere(1, collective=None),))
    assert found.workers == (1,)
    assert "does not reach barrier" in found.message


def test_of_idle_workers_the_one_that_is_behind_is_named() -> None:
    """Worker 1 waits in a way that no stack shows, but it has called the collective."""
    (found,) = check((state(0, waits(14)),), (elsewhere(1, 14),), (elsewhere(2, 13),))
    assert found.workers == (2,)


def test_no_worker_waits_in_a_collective() -> None:
    assert check((elsewhere(0),), (elsewhere(1),)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        check((), size=1)
    with pytest.raises(NotEnoughData, match="no step"):
        RankStuck().check(job((), (), steps=0))
